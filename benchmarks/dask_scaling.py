"""Ridge fits on Dask workers beside one machine: rows per second, bytes that move.

python benchmarks/dask_scaling.py [--rows 400000] [--features 20] [--parts 20] [--workers 1 2] [--repeat 3]

The workers are processes of one thread on this machine, and hold their partitions before the clock starts;
the fit of one machine has the same rows in memory. "sums" is the pass over all rows, the only phase that
grows with them. Bytes that leave workers, to others or to the client, are counted by the workers themselves.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import time
from typing import Any

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait

import gramian as gm
from gramian._budget import format_bytes
from gramian.approximation.ridge_sums import PartSums, RidgeSums
from gramian.engine_dask import DaskEngine


def collections(rows: int, features: int, parts: int) -> tuple[da.Array, da.Array]:
    """Return rows that the workers make, and targets of them."""
    size = rows // parts

    def one(block_info: Any = None) -> np.ndarray:
        return np.random.default_rng(block_info[None]["chunk-location"][0]).random(
            (size, features), np.float32
        )

    X = da.map_blocks(
        one, chunks=((size,) * parts, (features,)), dtype=np.float32, meta=np.empty((0, 0), np.float32)
    )
    y = da.sin(4 * X[:, 0]) * da.cos(3 * X[:, 1]) + X[:, 2]
    return X, y


def model(**given: Any) -> gm.KernelRidge:
    sizes = gm.MultiResolution(root_rank=400, rank=100, n_blocks=30)
    return gm.KernelRidge(
        alpha=1e-2, gamma=1.0, approximation=sizes, random_state=0, tile_dtype="float32", **given
    )


class Sizes:
    """Bytes of what is sent and of what comes back, read off the values themselves."""

    sent = sums = 0


def record_sizes() -> None:
    original = DaskEngine.sent

    def sent(engine: DaskEngine, value: Any) -> Any:
        if isinstance(value, PartSums):
            Sizes.sent = len(pickle.dumps(value))
            Sizes.sums = RidgeSums.zeros(value.features, value.shift, intercept=value.intercept).nbytes
        return original(engine, value)

    DaskEngine.sent = sent  # type: ignore[method-assign]


def outgoing(client: Client) -> int:
    return sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())


def line(name: str, rows: int, sums: float, fit: float, base: float, moved: str) -> str:
    return f"| {name} | {sums:.2f} | {fit:.2f} | {rows / sums:,.0f} | {base / sums:.2f} | {moved} |"


def median_of(repeat: int, rows: Any, targets: Any, **given: Any) -> tuple[float, float, gm.KernelRidge]:
    times = []
    for _ in range(repeat):
        began = time.perf_counter()
        fitted = model(**given).fit(rows, targets)
        times.append((fitted.plan_.used_seconds["sums"], time.perf_counter() - began))
    return statistics.median(t[0] for t in times), statistics.median(t[1] for t in times), fitted


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--features", type=int, default=20)
    parser.add_argument("--parts", type=int, default=20)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    X, y = collections(args.rows, args.features, args.parts)
    n = X.shape[0]
    rows, targets = (np.asarray(part) for part in da.compute(X, y))
    print(f"{n:,} rows of {args.features} float32, {args.parts} partitions; root 400 and 30 blocks of 100\n")
    print("| where | sums, s | whole fit, s | rows/s (sums) | to one thread | bytes from workers |")
    print("|---|---|---|---|---|---|")
    base, fit, alone = median_of(args.repeat, rows, targets, n_jobs=1)
    print(line("this process, 1 thread", n, base, fit, base, "0"))
    sums, fit, _ = median_of(args.repeat, rows, targets, n_jobs=2)
    print(line("this process, 2 threads", n, sums, fit, base, "0"))
    record_sizes()
    for workers in args.workers:
        with (
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            dX, dy = X.persist(), y.persist()
            wait([dX, dy])
            model(n_jobs=1).fit(dX, dy)  # imports, compilers, connections
            before = outgoing(client)
            sums, fit, there = median_of(args.repeat, dX, dy, n_jobs=1)
            moved = (outgoing(client) - before) // args.repeat
            print(line(f"Dask, {workers} workers of 1 thread", n, sums, fit, base, format_bytes(moved)))
            if workers == max(args.workers):
                sums, fit, _ = median_of(args.repeat, rows, targets, n_jobs=1, engine=DaskEngine(client))
                print(line(f"rows sent to {workers} workers", n, sums, fit, base, ""))
            gap = np.abs(there.predict(rows[:5000]) - alone.predict(rows[:5000])).max()
    print(
        f"\nBroadcast to each worker: {format_bytes(Sizes.sent)}. Sums of a task: {format_bytes(Sizes.sums)}."
    )
    print(f"Largest difference of a prediction from one machine's (float32 tiles): {gap:.1e}.")
    print(f"All rows: {format_bytes(rows.nbytes)}.")


if __name__ == "__main__":
    main()
