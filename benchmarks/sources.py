"""A pass over the same rows from every kind of file: microseconds a row, and memory while reading.

python benchmarks/sources.py [--rows 60000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import zarr
from comparison import PeakMemory
from sklearn.datasets import dump_svmlight_file
from suite.datasets import load_dataset

import gramian as gm
from gramian.data.source import row_blocks

BLOCK = 4096
NAMES = ["X.npy", "t.zarr", "t.npz", "t.h5", "t.parquet", "t.csv", "t.svm"]


def write(folder: Path, X: np.ndarray) -> None:
    """Write the rows in every format."""
    table = pa.table({f"p{j}": X[:, j] for j in range(X.shape[1])})
    np.save(folder / "X.npy", X)
    np.savez_compressed(folder / "t.npz", X=X)
    zarr.open_group(folder / "t.zarr", mode="w").create_array("X", data=X, chunks=(1000, X.shape[1]))
    with h5py.File(folder / "t.h5", "w") as file:
        file.create_dataset("X", data=X, chunks=(256, X.shape[1]), compression="gzip", compression_opts=1)
    pq.write_table(table, folder / "t.parquet", row_group_size=20_000)
    pa.csv.write_csv(table, folder / "t.csv")
    dump_svmlight_file(X.astype(float), np.zeros(len(X)), str(folder / "t.svm"), zero_based=False)


def measure(path: Path) -> str:
    """Open and pass once over a file, in a process of its own."""
    with PeakMemory() as peak:
        start = time.perf_counter()
        source = gm.open_data(path)
        opened = time.perf_counter() - start
        start = time.perf_counter()
        for _ in row_blocks(source, BLOCK):
            pass
        passed = time.perf_counter() - start
    micro = 1e6 / source.shape[0]
    kind = f"{path.name:10s} {source.dtype!s:8s}"
    return f"{kind} {micro * opened:8.2f} {micro * passed:8.2f} us/row {peak.growth / 1e6:6.0f} MB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.file is not None:
        print(measure(options.file))
        return
    X = load_dataset("mnist").X[: options.rows].astype(np.uint8)
    start = time.perf_counter()
    for a in range(0, len(X), BLOCK):
        X[a : a + BLOCK].copy()
    copied = 1e6 * (time.perf_counter() - start) / len(X)
    print(f"{X.shape[0]} rows, {X.shape[1]} columns; opening, a pass, memory beside Python and libraries")
    print(f"{'ndarray':10s} {X.dtype!s:8s} {0:8.2f} {copied:8.2f} us/row")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), X)
        for name in NAMES:
            subprocess.run([sys.executable, __file__, "--file", str(Path(folder, name))], check=True)


if __name__ == "__main__":
    main()
