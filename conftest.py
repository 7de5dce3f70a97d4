"""Shared behaviour of all tests: repeatable entropy, skips where a package is absent, a summary of the skips.

Without an extra, a doctest or a page's snippet that needs it is skipped, and the reason names it. Tests say
what they need by ``pytest.importorskip``.
"""

from __future__ import annotations

import doctest
import os
from collections import Counter
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

import hypothesis
import numpy as np
import pytest

# The same examples in every run: a search for new ones is the task of `make adversary`.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")

EXTRAS = (
    "dask",
    "distributed",
    "h5py",
    "matplotlib",
    "numba",
    "onnx",
    "pandas",
    "polars",
    "pyarrow",
    "rich",
    "typer",
    "zarr",
)
ABSENT = {name for name in EXTRAS if find_spec(name) is None}


#: Configurations that the quick suite runs of a quick test that has more, and CI of a slow one.
CASES = {False: 5, True: 1}

#: Its doctests are collected only where the library is.
collect_ignore = [] if find_spec("autogluon") else ["src/gramian/integrations/autogluon.py"]


def pytest_configure(config: pytest.Config) -> None:
    """Skip the doctests of modules that import an absent package."""
    if ABSENT:
        config.option.doctest_ignore_import_errors = True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark repeated configurations, and leave out ``promise`` unless ``-m`` names it.

    Of several configurations of an estimator under scikit-learn's checks, the suites take the first; a
    precomputed kernel counts as another estimator. Of more than ``CASES`` configurations of a test they take
    that many, spread evenly; slow ones are counted by themselves. The others are marked as slow and
    ``repeat``, unless the test, or the configuration, is marked ``whole``. A test marked ``promise`` starts
    fresh processes and measures them. Tests marked ``data`` are skipped where there are no data
    sets.
    """
    first: dict[tuple[type, bool], Any] = {}
    groups: dict[tuple[str, bool], list[pytest.Item]] = {}
    absent = pytest.mark.skip(reason="GRAMIAN_DATA names no folder of data")
    for item in items:
        if not os.environ.get("GRAMIAN_DATA") and item.get_closest_marker("data"):
            item.add_marker(absent)
        given = getattr(item, "callspec", None)
        if not given or item.get_closest_marker("whole"):
            continue
        if {"estimator", "check"} <= given.params.keys():
            estimator = given.params["estimator"]
            kind = (type(estimator), getattr(estimator, "kernel", None) == "precomputed")
            if item.get_closest_marker("slow") or first.setdefault(kind, estimator) is not estimator:
                _repeats(item)
        else:
            rest = bool(item.get_closest_marker("slow") or item.get_closest_marker("data"))
            groups.setdefault((item.nodeid.split("[")[0], rest), []).append(item)
    for (_, rest), group in groups.items():
        most = CASES[rest]
        kept = {k * (len(group) - 1) // max(1, most - 1) for k in range(most)}
        for number, item in enumerate(group):
            if len(group) > most and number not in kept:
                _repeats(item)
    if "promise" not in config.option.markexpr:
        left_out = [item for item in items if item.get_closest_marker("promise")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not item.get_closest_marker("promise")]


def _repeats(item: pytest.Item) -> None:
    item.add_marker("slow")
    item.add_marker("repeat")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were skipped for each reason."""
    reports = terminalreporter.stats.get("skipped", [])
    if reports:
        reasons = Counter(_reason(report) for report in reports)
        terminalreporter.section(f"{len(reports)} skipped")
        for reason, count in sorted(reasons.items(), key=lambda pair: (-pair[1], pair[0])):
            terminalreporter.line(f"{count:5}  {reason}")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Return the reason of a skip in one line."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return " ".join(text.removeprefix("Skipped: ").split())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Turn an error about an absent package into a skip with the text of the error."""
    try:
        return (yield)
    except Exception as error:
        cause = error.exc_info[1] if isinstance(error, doctest.UnexpectedException) else error
        if isinstance(cause, ImportError) and any(name in str(cause) for name in ABSENT):
            pytest.skip(str(cause))
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Seed what ``random_state=None`` draws by the number in the mark ``entropy``, or by 0."""
    fresh = np.random.default_rng
    mark = item.get_closest_marker("entropy")
    entropy = np.random.SeedSequence(mark.args[0] if mark else 0)

    def repeatable(seed: Any = None) -> np.random.Generator:
        return fresh(entropy.spawn(1)[0] if seed is None else seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "default_rng", repeatable)
        return (yield)


@pytest.fixture(scope="module")
def one_blas_thread() -> Generator[None, None, None]:
    """Hold BLAS to one thread: dense oracles of a few dozen rows are slower on two."""
    from gramian import _tiles

    with _tiles.one_blas_thread():
        yield
