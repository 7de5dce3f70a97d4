"""The meter of peak memory: what was freed, what is mapped, and systems that tell less."""

from __future__ import annotations

import sys
import threading

import numpy as np
from comparison import PeakMemory, peak_memory


def test_peak_memory_sees_what_was_freed(monkeypatch):
    held, looks = [100e6], threading.Semaphore(0)

    def anonymous():
        found = held[0]
        looks.release()
        return found

    monkeypatch.setattr(peak_memory, "_anonymous", anonymous)
    with PeakMemory() as memory:
        held[0] = 164e6
        while looks.acquire(blocking=False):
            pass
        for _ in range(2):  # the first of these looks may have begun before
            looks.acquire()
        held[0] = 110e6
    assert memory.growth == 64e6


def test_memory_is_that_of_arrays():
    before = peak_memory._now()
    block = np.ones(8_000_000)
    assert peak_memory._now() - before > 50e6 or np.isnan(before)
    del block


def test_peak_memory_leaves_out_mapped_files(tmp_path):
    np.save(tmp_path / "big.npy", np.ones(64_000_000, np.uint8))
    mapped = np.load(tmp_path / "big.npy", mmap_mode="r")
    with PeakMemory() as memory:
        assert int(mapped.sum(dtype=np.int64)) == 64_000_000
    if peak_memory._anonymous() is not None:
        assert memory.growth < 32e6


def test_peak_memory_without_proc(monkeypatch):
    monkeypatch.setattr(peak_memory, "_anonymous", lambda: None)
    with PeakMemory() as memory:
        pass
    assert memory.growth >= 0 or np.isnan(memory.growth)
    monkeypatch.setitem(sys.modules, "resource", None)
    assert np.isnan(peak_memory._resident_peak())
