"""The run: a process for every search and every size, killed where it takes too long."""

from __future__ import annotations

import multiprocessing
import os
import resource
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from suite.job import Job
from suite.machine import describe
from suite.methods import METHODS
from suite.results import Line, append, key, read
from suite.sets import load

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = str(ROOT / "benchmarks")
#: A search may exceed its seconds by one fit, and has to read the data.
GRACE_SECONDS = 60.0


def _work(job: Job, answer: Connection, memory: float) -> None:
    # A method that needs more raises MemoryError instead of taking the machine down.
    resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
    try:
        answer.send(job.run())
    # The parent reports whatever a method raises, and goes on with the next.
    except Exception as error:
        # Where the folder lies on this machine is nobody's business.
        where = traceback.format_exc().replace(f"{ROOT}/", "")
        answer.send({"failure": f"{type(error).__name__}: {error}", "traceback": where})


def _server() -> ForkServerContext:
    """Return what forks a process that has imported what every job needs and computed nothing."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["suite.job", "suite.table_job"])
    # Python 3.11 starts the server without the path of this process, and passes over what it cannot import:
    # every job would import it all again, for seconds.
    paths = [BENCHMARKS, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    return context


def in_fresh_process(job: Job, *, limit: float, memory: float) -> dict[str, Any]:
    """Run a job in a process of its own; ``failure`` says what went wrong, if anything."""
    context = _server()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(job, theirs, memory))
    process.start()
    theirs.close()
    try:
        if ours.poll(limit):
            answer = ours.recv()
            process.join(GRACE_SECONDS)
            return answer
        return {"failure": f"not done in {limit:.0f} s"}
    except EOFError:
        process.join()
        return {"failure": f"ended with exit status {process.exitcode} (-9: usually out of memory)"}
    finally:
        process.kill()
        process.join()


def run(
    sets: list[str],
    methods: list[str],
    *,
    seconds: float,
    runs: int,
    limit: float,
    memory: float,
    threads: int,
    out: Path,
    all_sizes: bool = True,
) -> Iterator[Line]:
    """Yield the lines that ``out`` lacks, as they are made and appended."""
    done = {key(line): line for line in read(out)}
    machine = describe(threads) | {"limit_seconds": limit, "limit_bytes": memory}

    def finished(line: Line) -> Line:
        line["machine"] = machine
        append(out, line)
        done[key(line)] = line
        return line

    for name in sets:
        task = load(name).task
        for method in methods:
            contender = METHODS[method]
            if task not in contender.tasks:
                continue
            searched = contender.settings_of or method
            start: Line = {"set": name, "method": searched, "size": "search", "search_seconds": seconds}
            if key(start) not in done:
                job = Job(name, searched, seconds=seconds)
                yield finished(
                    start | in_fresh_process(job, limit=seconds + GRACE_SECONDS + limit, memory=memory)
                )
            found = done[key(start)]
            for size in contender.sizes if all_sizes else (contender.usual_size,):
                line: Line = {"set": name, "method": method, "size": size, "search_seconds": seconds}
                if key(line) in done:
                    continue
                if "failure" in found:
                    yield finished(line | {"failure": f"its search: {found['failure']}"})
                    continue
                job = Job(name, method, size, found["settings"], runs=runs)
                yield finished(line | in_fresh_process(job, limit=limit, memory=memory))
