"""
Which approximation for which bandwidth
=======================================

A wide kernel gives a matrix of low rank, a narrow one a matrix that is nearly block-diagonal. One global
basis serves the first, blocks the second, and coupled blocks serve both. Here each method stores about the
same number of bytes, and gamma goes from wide to narrow.
"""

import matplotlib.pyplot as plt
import numpy as np

import gramian as gm

# %%
# Rows around twelve centres in five dimensions. The exact matrix of 1,500 rows takes 18 MB.

rng = np.random.default_rng(0)
centres = rng.random((12, 5))
X = centres[rng.integers(12, size=1_500)] + 0.15 * rng.standard_normal((1_500, 5))
numbers, blocks = 60, 8

# %%
# Six approximations of about 60 numbers a row. With c blocks of rank r a coupled core takes (c·r)²
# numbers beside the n·r of the bases, so that ``MEKA`` and ``BlockBasis`` get a smaller r.


coupled = next(r for r in range(numbers, 0, -1) if len(X) * r + (blocks * r) ** 2 <= len(X) * numbers)


def methods(gamma: float) -> dict:
    """Return the unfitted approximations by name."""
    common = {"gamma": gamma, "random_state": 0}
    half = numbers // 2
    return {
        "RandomFourier": gm.RandomFourier(rank=numbers, **common),
        "Nystrom": gm.Nystrom(rank=numbers, **common),
        "BlockDiagonal": gm.BlockDiagonal(rank=numbers, n_blocks=blocks, **common),
        "MultiResolution": gm.MultiResolution(root_rank=half, rank=half, n_blocks=blocks, **common),
        "MEKA": gm.MEKA(rank=coupled, n_blocks=blocks, **common),
        "BlockBasis": gm.BlockBasis(rank=coupled, n_blocks=blocks, **common),
    }


gammas = np.logspace(-1.5, 1.5, 5)
errors: dict[str, list[float]] = {name: [] for name in methods(1.0)}
for gamma in gammas:
    for name, a in methods(gamma).items():
        a.fit(X)
        errors[name].append(float(a.relative_error(X, n_rows=200, random_state=1)))

# %%
# The table, and the picture. No method is the best for every gamma: ``Nystrom`` is where the kernel is wide,
# coupled blocks are from there on. Where even they err by half, no matrix of this size is near.

print(f"{'gamma':16}     kB" + "".join(f"{gamma:9.3g}" for gamma in gammas))
for name, a in methods(gammas[-1]).items():
    size = a.fit(X).nbytes_ / 1e3
    print(f"{name:16}{size:7.0f}" + "".join(f"{error:9.1e}" for error in errors[name]))

figure, place = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
for (name, found), marker in zip(errors.items(), "osv^Dd", strict=True):
    place.loglog(gammas, found, marker=marker, label=name)
place.set(xlabel="gamma: wide kernel to narrow", ylabel="‖K − K̃‖ / ‖K‖ (Frobenius)", ylim=(1e-9, 12))
place.axhline(1.0, color="grey", lw=0.8, ls=":")
place.legend(ncols=2, fontsize="small")
place.set_title("Error of the matrix, about 60 numbers a row")
plt.show()
