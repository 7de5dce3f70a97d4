"""Learn the measurements that lie beside this file, and print rows, seconds and memory as JSON.

The demo copies this script into its folder and runs it in a process of its own. You can run it again
yourself. Its argument limits the memory of the whole process: ``python two_million.py 300MB``.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

import gramian as gm
from gramian.comparison.peak_memory import resident


def main(limit: int) -> None:
    """Learn the rows while the whole process, with Python and the libraries, stays within ``limit`` bytes."""
    here = Path(__file__).parent
    before = resident("VmRSS")
    places = np.load(here / "places.npy", mmap_mode="r")  # (n, 2); read as they are needed
    heights = np.load(here / "heights.npy", mmap_mode="r")
    began = time.perf_counter()
    n_blocks = min(200, max(1, len(places) // 1000))
    model = gm.KernelRidge(
        alpha=1.0,
        gamma=10.0 * n_blocks,  # bumps that are as narrow as the landmarks are dense
        approximation=gm.MultiResolution(root_rank=100, rank=30, n_blocks=n_blocks),
        memory_budget=max(1, int(limit - before)),
        random_state=0,
    )
    model.fit(places, heights)
    seconds = time.perf_counter() - began
    grid = np.load(here / "grid.npy")
    np.save(here / "learned.npy", model.predict(grid))
    facts = {"rows": len(places), "seconds": seconds, "before": before, "peak": resident("VmHWM")}
    print(json.dumps(facts))


if __name__ == "__main__":
    main(int(float(sys.argv[1].upper().removesuffix("MB")) * 1e6))
