"""
Rows that stay on disk
======================

Kernel ridge regression on a file that is written and read in blocks, within a memory budget. The model never
holds the table, and the budget bounds each phase of the fit.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import gramian as gm

N_ROWS, N_TEST, BUDGET = 60_000, 2_000, 30e6

# %%
# Write the rows
# --------------
# As a program would that never has all rows at once.

rng = np.random.default_rng(0)
folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "rows.npy"
rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N_ROWS, 2))
y = np.empty(N_ROWS)
for start in range(0, N_ROWS, 5_000):
    part = slice(start, start + 5_000)
    rows[part] = rng.random((5_000, 2))
    y[part] = np.sin(12 * rows[part, 0]) * rows[part, 1] + 0.1 * rng.standard_normal(5_000)
del rows

# %%
# Fit within the budget
# ---------------------
# ``mode="r"`` maps the file. The plan says which sizes fit, and what each phase holds.

X = np.load(path, mmap_mode="r")
model = gm.KernelRidge(alpha=0.1, gamma=10.0, memory_budget=f"{BUDGET / 1e6:.0f}MB", random_state=0)
model.fit(X[N_TEST:], y[N_TEST:])
print(model.plan_)
print(f"R² on {N_TEST:,} held-out rows: {model.score(X[:N_TEST], y[:N_TEST]):.3f}")

# %%
# Bytes by phase, and the function that was learned. The noise has deviation 0.1, so R² cannot reach 1.

grid = np.stack(np.meshgrid(np.linspace(0, 1, 80), np.linspace(0, 1, 80)), axis=-1).reshape(-1, 2)
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
phases = model.plan_.bytes
left.barh(list(phases), [size / 1e6 for size in phases.values()], color="tab:blue")
left.axvline(BUDGET / 1e6, color="crimson", ls="--", label="memory_budget")
left.set(xlabel="MB, predicted", title=f"{X.shape[0]:,} rows in a file")
left.invert_yaxis()
left.legend()
image = right.imshow(
    model.predict(grid).reshape(80, 80), origin="lower", extent=(0, 1, 0, 1), cmap="RdBu", vmin=-1, vmax=1
)
right.set(xlabel="first feature", ylabel="second feature", title="predictions")
figure.colorbar(image, ax=right)
plt.show()

# %%
# Some systems do not remove a file that is mapped, so the map goes first.

del X
folder.cleanup()
