"""MEKA and MultiResolution: relative error of the matrix by the bytes that it takes."""

import numpy as np

import gramian as gm


def main() -> None:
    rng = np.random.default_rng(0)
    centres = rng.random((12, 5))
    X = centres[rng.integers(12, size=3_000)] + 0.15 * rng.standard_normal((3_000, 5))
    print(f"the Gram matrix of {len(X):,} rows takes {8 * len(X) ** 2 / 1e6:.0f} MB")
    print(f"{'method':16} {'sizes':>12} {'MB':>6} {'error':>8} {'s.e.':>8}")
    for rank in (10, 20, 40, 80):
        meka = gm.MEKA(gamma=1.0, rank=rank, n_blocks=6, random_state=0)
        multi = gm.MultiResolution(gamma=1.0, root_rank=2 * rank, rank=rank, n_blocks=6, random_state=0)
        for a, sizes in ((meka, f"6 x {rank}"), (multi, f"{2 * rank} + 6 x {rank}")):
            a.fit(X)
            error = a.relative_error(X, n_rows=500, random_state=1)
            print(
                f"{type(a).__name__:16} {sizes:>12} {a.nbytes_ / 1e6:6.2f} {error:8.4f} "
                f"{error.standard_error:8.4f}"
            )


if __name__ == "__main__":
    main()
