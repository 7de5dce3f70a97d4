"""Run tests as on other processors: core types of OpenBLAS, with NumPy's loops to match.

python tools/run_cores.py PYTEST_ARGUMENTS. A test that passes on one processor and fails on another lets
rounding decide. Left out, and named, are the core type that this processor has by itself, which ``make test``
runs, and those whose instructions it lacks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg  # noqa: F401  (loads the BLAS that threadpool_info sees)
from threadpoolctl import threadpool_info


@dataclass(frozen=True)
class Core:
    """A kind of processor, as OpenBLAS and NumPy know it."""

    name: str  #: of OPENBLAS_CORETYPE
    needs: str  #: feature of the processor, by NumPy's name
    wide: tuple[str, ...]  #: instructions whose loops NumPy must not take, by what their names begin with


#: Each adds up products in another order.
CORES = (
    Core("SkylakeX", "AVX512F", ()),
    Core("Haswell", "AVX2", ("AVX512", "X86_V4")),
    Core("Zen", "AVX2", ("AVX512", "X86_V4", "AVX2", "FMA3", "X86_V3")),
)


def loops() -> tuple[dict[str, bool], list[str]]:
    """Return what NumPy says of the processor, and the sets of instructions that it chooses among."""
    package: Any = np._core if hasattr(np, "_core") else np.core  # type: ignore[attr-defined]
    module = package._multiarray_umath
    return module.__cpu_features__, list(module.__cpu_dispatch__)


def main() -> None:
    """Run the tests once for each core type and stop at the first that fails."""
    features, dispatched = loops()
    own = {library.get("architecture") for library in threadpool_info()}
    for core in CORES:
        if core.name in own:
            print(f"== {core.name}: this processor's own, which make test runs", flush=True)
            continue
        if not features.get(core.needs, False):
            print(f"== {core.name}: this processor has no {core.needs}: not tested", flush=True)
            continue
        off = [name for name in dispatched if features.get(name, False) and name.startswith(core.wide or "-")]
        print(f"== {core.name}, NumPy without {' '.join(off) or 'nothing'}", flush=True)
        settings = {
            "OPENBLAS_CORETYPE": core.name,
            "NPY_DISABLE_CPU_FEATURES": " ".join(off),
            "OPENBLAS_NUM_THREADS": "1",
        }
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *sys.argv[1:]], env=os.environ | settings, check=False
        )
        if done.returncode:
            raise SystemExit(f"The tests fail as on {core.name}: run them with {settings}")


if __name__ == "__main__":
    main()
