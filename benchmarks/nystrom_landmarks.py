"""Spectral error of the Nyström approximation by its rule for landmarks, over that of the exact SVD.

GRAMIAN_DATA=folder python benchmarks/nystrom_landmarks.py [--seeds 5]

1,000 random rows of each set, with the ranks and gammas of paper_kals.py, but for cpusmall (there the errors
are those of rounding; here gamma is 1/32). "r x": r landmarks; "5r x": 5·r landmarks, recompressed to rank r,
median and worst of the seeds. The bar for rpcholesky is 1.05.
"""

from __future__ import annotations

import argparse

import numpy as np
from paper_kals import SETS, rows_of

import gramian as gm
from gramian.landmarks.rules import METHODS

GAMMA = {name: SETS[name].gamma for name in ("german", "satimage", "wine")} | {"cpusmall": 2.0**-5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    print(f"{'set':10} {'r':>4} {'rule':16} {'r x':>9} {'5r x':>8} {'worst':>8}")
    for name, gamma in GAMMA.items():
        rank = SETS[name].rank
        ratios = {rule: ([], []) for rule in METHODS}
        for seed in range(seeds):
            X = rows_of(name, seed)
            K = gm.Gaussian((0.5 / gamma) ** 0.5)(X)
            best = np.linalg.eigvalsh(K)[-rank - 1]
            for rule, (plain, cut) in ratios.items():
                for oversampling, found in ((1.0, plain), (5.0, cut)):
                    a = gm.Nystrom(
                        gamma=gamma,
                        rank=rank,
                        landmarks=rule,
                        oversampling=oversampling,
                        tile_dtype="float64",
                        random_state=seed,
                    ).fit(X)
                    found.append(np.linalg.norm(K - a.operator_.to_dense(), 2) / best)
        for rule, (plain, cut) in ratios.items():
            print(
                f"{name:10} {rank:4d} {rule:16} {np.median(plain):9.2f} {np.median(cut):8.3f} "
                f"{max(cut):8.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
