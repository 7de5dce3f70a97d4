"""The memory budget as a user measures it: growth of a fresh process during a fit.

The parent process reads the child's anonymous memory (``RssAnon`` of /proc) every two milliseconds: it needs
no interpreter lock of the child's, and it counts what allocators keep and what BLAS takes, but not pages of
mapped files. ``make memory`` runs this; ``python tests/promises/test_memory.py`` prints the table.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from memory_cases import CASES

from gramian._budget import parse_bytes

HERE = Path(__file__).parent
STATUS = Path("/proc/self/status")
#: Part of the budget by which a fit may exceed it.
SLACK = 1.05
#: Seconds between two looks at the child's memory.
SAMPLING = 0.002


@dataclass(frozen=True)
class Measured:
    """What a fit took, in bytes and seconds."""

    growth: int
    allowed: int
    seconds: float
    plan: str


def anonymous(process: int) -> int:
    """Return a process's anonymous resident memory in bytes."""
    for line in Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("RssAnon:"):
            return 1024 * int(line.split()[1])
    return 0


def measure(name: str, threads: int) -> Measured:
    """Fit a case in a fresh process with this many BLAS threads."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
    with subprocess.Popen(
        [sys.executable, str(HERE / "memory_cases.py"), name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n", "the child failed before the fit: see its output above"
        baseline = peak = anonymous(child.pid)
        began = time.perf_counter()
        child.stdin.write("\n")
        child.stdin.flush()
        while not select.select([child.stdout], [], [], SAMPLING)[0]:
            peak = max(peak, anonymous(child.pid))
        told = child.stdout.readline()
        seconds = time.perf_counter() - began
        child.stdin.close()
    assert told.endswith("\n"), "the fit failed: see the child's output above"
    found = json.loads(told)
    budget = parse_bytes(CASES[name].budget)
    return Measured(peak - baseline, round(SLACK * budget) + found["beside"], seconds, found["plan"])


@pytest.mark.promise
@pytest.mark.skipif(
    not STATUS.exists() or "RssAnon:" not in STATUS.read_text(encoding="ascii", errors="replace"),
    reason="the system has no /proc/self/status with RssAnon, by which memory is measured",
)
@pytest.mark.parametrize(("number", "name"), list(enumerate(CASES)), ids=list(CASES))
def test_a_fit_keeps_its_memory_budget(number: int, name: str) -> None:
    found = measure(name, threads=1 + number % 2)
    assert found.growth <= found.allowed, (
        f"{name}: grew by {found.growth / 1e6:.1f} MB, allowed are {found.allowed / 1e6:.1f}\n{found.plan}"
    )


def main() -> None:
    wanted = sys.argv[1:] or list(CASES)
    for number, name in enumerate(CASES):
        if name not in wanted:
            continue
        try:
            found = measure(name, threads=1 + number % 2)
        except AssertionError as error:
            print(f"{name:28} FAILED {error}", flush=True)
            continue
        over = "  OVER" if found.growth > found.allowed else ""
        sizes = f"{found.growth / 1e6:7.1f} of {found.allowed / 1e6:7.1f} MB"
        print(f"{name:28} {sizes} {found.seconds:6.1f} s{over}", flush=True)


if __name__ == "__main__":
    main()
