"""Kernel ridge regression on rows that stay on disk, within a memory budget."""

import tempfile
from pathlib import Path

import numpy as np

import gramian as gm

N_ROWS, N_TEST = 20_000, 2_000


def main() -> None:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(N_ROWS, 4))
        for start in range(0, N_ROWS, 5_000):  # as a program would that has not all rows at once
            rows[start : start + 5_000] = rng.random((5_000, 4))
        y = np.sin(12 * rows[:, 0]) * rows[:, 1] + 0.1 * rng.standard_normal(N_ROWS)
        del rows

        X = np.load(path, mmap_mode="r")
        model = gm.KernelRidge(alpha=0.1, gamma=10.0, memory_budget="30MB", random_state=0)
        model.fit(X[N_TEST:], y[N_TEST:])
        print(model.plan_)
        print(f"R² on {N_TEST:,} held-out rows: {model.score(X[:N_TEST], y[:N_TEST]):.3f}")
        del X  # some systems do not remove a file that is mapped


if __name__ == "__main__":
    main()
