"""What every test has: entropy by its name, and a skip where a package is absent.

Without an extra, a doctest or a page's snippet that needs it is skipped, and the reason names it. Tests say
what they need by ``pytest.importorskip``.
"""

from __future__ import annotations

import doctest
import zlib
from collections.abc import Generator
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

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


def pytest_configure(config: pytest.Config) -> None:
    """Skip the doctests of modules that import an absent package."""
    if ABSENT:
        config.option.doctest_ignore_import_errors = True


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
    """Draw what ``random_state=None`` takes as entropy from the test's name: what passes does so again."""
    fresh = np.random.default_rng
    entropy = np.random.SeedSequence(zlib.crc32(item.nodeid.encode()))

    def of_name(seed: Any = None) -> np.random.Generator:
        return fresh(entropy.spawn(1)[0] if seed is None else seed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random, "default_rng", of_name)
        return (yield)
