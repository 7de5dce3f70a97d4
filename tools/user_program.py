"""Program of a user with a strict type checker; checked against the installed wheel, never run."""

from __future__ import annotations

from typing import assert_type

import numpy as np
import numpy.typing as npt

import gramian as gm


def trained(X: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> gm.KernelRidge:
    model = gm.KernelRidge(
        alpha=0.1, kernel=gm.Gaussian(lengthscale=0.5), memory_budget="100MB", random_state=0
    )
    return model.fit(X, y)


def features(X: npt.NDArray[np.float64]) -> int:
    approximation = gm.MEKA(rank=20, gamma=1.0).fit(X)
    return int(approximation.rank_)


def from_file(path: str) -> tuple[int, int]:
    return gm.open_data(path, target="y").shape


# Not Any: the types of the package are seen.
assert_type(gm.__version__, str)
assert_type(gm.open_data("t.csv").shape, tuple[int, int])
assert_type(trained(np.ones((4, 2)), np.ones(4)), gm.KernelRidge)
