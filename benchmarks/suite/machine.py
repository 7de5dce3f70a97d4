"""Description of the machine that produced the figures."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import subprocess
import sys
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

from suite.peers import installed

LIBRARIES = ("gramian", "numpy", "scipy", "scikit-learn")


def describe(threads: int, libraries: Iterable[str] = ()) -> dict[str, Any]:
    """Return processor, day, and versions, of these libraries too if they are installed."""
    versions = {name: importlib.metadata.version(name) for name in LIBRARIES}
    versions |= {name: version for name, version in installed().items() if version}
    for name in libraries:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return {
        "day": date.today().isoformat(),
        "processor": processor(),
        "threads": threads,
        "python": platform.python_version(),
        "commit": commit(),
        "versions": versions,
    }


def processor() -> str:
    """Name the processor as the system does."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine() or sys.platform


def commit() -> str | None:
    """Return the commit of this clone, or None outside one."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or None
