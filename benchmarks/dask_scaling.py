"""Ridge fits on Dask workers beside one machine: rows per second, bytes that move.

python benchmarks/dask_scaling.py [--rows 400000] [--features 20] [--parts 20] [--workers 1 2] [--repeat 3]

The workers are processes of one thread on this machine, and hold their partitions before the clock starts;
the fit of one machine has the same rows in memory. "sums" is the pass over all rows, the only phase that
grows with them. Bytes that leave workers, to others or to the client, are counted by the workers themselves.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import dask.array as da
import numpy as np
from distributed import Client, LocalCluster, wait
from suite.machine import describe

import gramian as gm
from gramian._budget import format_bytes
from gramian.engine_dask import DaskEngine
from gramian.ridge.sums import PartSums, RidgeSums

#: Where the table is stored, with commit, versions and machine.
RESULT = Path(__file__).parent / "results" / "dask_scaling.json"
#: For workers: Dask's own setting makes glibc give memory back, and fault it in again, for every tile.
ROOMY = {"MALLOC_TRIM_THRESHOLD_": str(1 << 28), "MALLOC_MMAP_THRESHOLD_": str(1 << 25)}


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


@dataclass
class Measured:
    sums: float  #: seconds of the pass over the rows
    fit: float  #: seconds of the whole fit
    cpu: float  #: processor seconds of the fit, of all processes
    model: gm.KernelRidge

    def line(self, name: str, rows: int, base: Measured, moved: str) -> str:
        return (
            f"| {name} | {self.sums:.2f} | {self.fit:.2f} | {rows / self.sums:,.0f} | "
            f"{base.sums / self.sums:.2f} | {1e6 * self.cpu / rows:.1f} | {moved} |"
        )


def processor_seconds(client: Client | None) -> float:
    workers = {} if client is None else client.run(time.process_time)
    return time.process_time() + sum(workers.values())


def measured(repeat: int, rows: Any, targets: Any, client: Client | None = None, **given: Any) -> Measured:
    """Return medians over the repeats."""
    done = []
    for _ in range(repeat):
        cpu, began = processor_seconds(client), time.perf_counter()
        fitted = model(**given).fit(rows, targets)
        fit = time.perf_counter() - began
        done.append((fitted.plan_.used_seconds["sums"], fit, processor_seconds(client) - cpu))
    return Measured(*(statistics.median(values) for values in zip(*done)), fitted)


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
    said: list[str] = []

    def say(line: str) -> None:
        print(line, flush=True)
        said.append(line)

    X, y = collections(args.rows, args.features, args.parts)
    n = X.shape[0]
    rows, targets = (np.asarray(part) for part in da.compute(X, y))
    say(f"{n:,} rows of {args.features} float32, {args.parts} partitions; root 400 and 30 blocks of 100\n")
    say("| where | sums, s | whole fit, s | rows/s (sums) | to one thread | CPU, µs a row | from workers |")
    say("|---|---|---|---|---|---|---|")
    alone = measured(args.repeat, rows, targets, n_jobs=1)
    say(alone.line("this process, 1 thread", n, alone, "0"))
    say(measured(args.repeat, rows, targets, n_jobs=2).line("this process, 2 threads", n, alone, "0"))
    record_sizes()
    largest = max(args.workers)
    for workers, roomy in [(largest, False), *((workers, True) for workers in args.workers)]:
        with (
            mock.patch.dict(os.environ, ROOMY if roomy else {}),
            LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster) as client,
        ):
            dX, dy = X.persist(), y.persist()
            wait([dX, dy])
            model(n_jobs=1).fit(dX, dy)  # imports, compilers, connections
            before = outgoing(client)
            there = measured(args.repeat, dX, dy, client, n_jobs=1)
            moved = format_bytes((outgoing(client) - before) // args.repeat)
            name = f"Dask, workers: {workers}" + ("" if roomy else ", malloc as Dask sets it")
            say(there.line(name, n, alone, moved))
            if roomy and workers == largest:
                before = outgoing(client)
                sent = measured(args.repeat, rows, targets, client, n_jobs=1, engine=DaskEngine(client))
                moved = format_bytes((outgoing(client) - before) // args.repeat)
                say(sent.line(f"rows sent to workers: {workers}", n, alone, moved))
            gap = np.abs(there.model.predict(rows[:5000]) - alone.model.predict(rows[:5000])).max()
    say(
        f"\nBroadcast to each worker: {format_bytes(Sizes.sent)}. Sums of a task: {format_bytes(Sizes.sums)}."
    )
    say(f"Largest difference of a prediction from one machine's (float32 tiles): {gap:.1e}.")
    say(f"All rows: {format_bytes(rows.nbytes)}.")
    RESULT.write_text(json.dumps({**describe(threads=1), "lines": said}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
