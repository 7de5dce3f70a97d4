"""Peak private memory of this process while a piece of code runs."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

#: Seconds between two samples of the process's memory. Sampling five times as often slows a threaded fit by
#: a tenth. Chosen by hand.
SAMPLING = 0.01


class PeakMemory:
    """Peak growth of this process's own memory while the context is open, in ``growth`` (bytes).

    If ``/proc`` exists, a thread samples RssAnon, which excludes the page cache of memory-mapped files.
    Otherwise it is the growth of the resident set's peak, or NaN if the system does not report one.
    """

    growth: float = float("nan")

    def __enter__(self) -> PeakMemory:
        self._sampled = _anonymous() is not None
        self._peak = self._baseline = _now()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        if self._sampled:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._sampled:
            self._thread.join()
        self._peak = max(self._peak, _now())
        self.growth = self._peak - self._baseline

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLING):
            self._peak = max(self._peak, _now())


def _now() -> float:
    anonymous = _anonymous()
    return _resident_peak() if anonymous is None else anonymous


def _anonymous() -> float | None:
    """Return RssAnon in bytes, or None without /proc."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            for line in status:
                if line.startswith("RssAnon:"):
                    return 1024.0 * int(line.split()[1])
    except OSError:
        pass
    return None


def _resident_peak() -> float:
    """Return the peak size of the resident set in bytes, or NaN if it is unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak) if sys.platform == "darwin" else 1024.0 * peak
