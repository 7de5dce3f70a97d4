"""
Two length scales: a root, and blocks for what it leaves over
=============================================================

A function that is smooth on the whole and rough in places needs many landmarks, more than one global
basis can afford. ``MultiResolution`` has a root of few landmarks for what varies over the whole line, and in
each block a basis of the kernel that the root leaves over.
"""

import matplotlib.pyplot as plt
import numpy as np

import gramian as gm

# %%
# A slow wave, with a fast one on half of the line.

rng = np.random.default_rng(0)
x = np.sort(rng.uniform(0, 10, 6_000))


def truth(x: np.ndarray) -> np.ndarray:
    """Return the slow wave, and the fast one where x is over 5."""
    return np.sin(0.9 * x) + 0.4 * np.sin(25 * x) * (x > 5)


X, y = x[:, None], truth(x) + 0.2 * rng.standard_normal(len(x))

# %%
# A kernel of two length scales, and two approximations: a root of 40 alone, and that root with 12 blocks of
# rank 15. A row has 40 features in the one and 55 at most in the other.

kernel, alpha = 1.0 * gm.Gaussian(1.0) + 0.2 * gm.Gaussian(0.08), 0.3
sizes = {
    "root of 40 alone": gm.MultiResolution(root_rank=40, n_levels=1, n_blocks=1),
    "root of 40 and 12 blocks of rank 15": gm.MultiResolution(root_rank=40, rank=15, n_blocks=12),
}
grid = np.linspace(0, 10, 2_000)
lines = {}
for name, approximation in sizes.items():
    model = gm.KernelRidge(alpha=alpha, kernel=kernel, approximation=approximation, random_state=0).fit(X, y)
    lines[name] = model.predict(grid[:, None])
    rmse = np.sqrt(np.mean((lines[name] - truth(grid)) ** 2))
    print(f"{name}: rank {model.rank_} in all, RMSE {rmse:.3f}")

# %%
# The same approximation as a transformer. A row has features of the root and of its own block only, so the
# sparse features say which block a row lies in, and their squares how much of k(x, x) = 1.2 they hold.

a = gm.MultiResolution(kernel, root_rank=40, rank=15, n_blocks=12, random_state=0).fit(X)
report = a.report(X)
print(report)
F = a.transform(X)
ends = 40 + np.cumsum(report.levels[-1])  # where the columns of each block end
block = np.searchsorted(ends, F[:, 40:].argmax(axis=1) + 40, side="right")
root = F[:, :40].power(2).sum(axis=1)
whole = F.power(2).sum(axis=1)

figure, (above, below) = plt.subplots(2, 1, figsize=(9, 6), sharex=True, layout="constrained")
above.plot(x, y, ",", color="silver")
for (name, line), colour in zip(lines.items(), ("tab:orange", "tab:blue"), strict=True):
    above.plot(grid, line, color=colour, label=name)
above.plot(grid, truth(grid), "k:", lw=1, label="truth")
above.legend(fontsize="small", ncols=3, loc="upper center")
above.set(ylim=(-2.2, 2.6), title="predictions")
below.fill_between(x, root, color="tab:orange", alpha=0.7, label="root")
below.fill_between(x, root, whole, color="tab:blue", alpha=0.7, label="block")
for s, rank in enumerate(report.levels[-1]):
    inside = x[block == s]
    below.axvline(inside.min(), color="white", lw=1)
    below.text(inside.mean(), 0.73, f"{rank}", ha="center", color="white")
below.set(xlabel="x", ylim=(0.7, 1.2), xlim=(0, 10), title="part of k(x, x) held, and the rank of each block")
below.legend(loc="center left", fontsize="small")
plt.show()
