"""Methods to measure: the contenders of a comparison, and the peers that are installed."""

from __future__ import annotations

from typing import Any

import numpy as np
from comparison import CONTENDERS, REGRESSION, Contender
from comparison.contenders import Hyperparameters, ProblemFacts, draws_of, log_uniform, usual_kernel

from gramian.exceptions import InputError, did_you_mean
from suite.peers import (
    PEERS,
    EigenProClassifier,
    EigenProRegressor,
    FalkonClassifier,
    FalkonRegressor,
    XRFMClassifier,
    XRFMRegressor,
    installed,
    require,
)

_EUCLIDEAN = draws_of("rbf", "exponential")
_NAMES = {"rbf": "gaussian", "exponential": "laplacian"}


def _falkon(settings: Hyperparameters, size: int, shape: ProblemFacts) -> Any:
    kind = FalkonRegressor if shape.task == REGRESSION else FalkonClassifier
    named = settings | {"kernel": _NAMES[settings["kernel"]]}
    return kind(n_centers=size, random_state=shape.seed, **named)


def _usual_eigenpro(_: ProblemFacts) -> Hyperparameters:
    return {}


def _draw_eigenpro(rng: np.random.Generator, shape: ProblemFacts) -> Hyperparameters:
    drawn = _EUCLIDEAN(rng, shape)
    # It calls exp(−gamma·‖x − y‖) Laplacian, and has no penalty.
    return {"kernel": _NAMES[drawn["kernel"]], "gamma": drawn["gamma"]}


def _eigenpro(settings: Hyperparameters, size: int, shape: ProblemFacts) -> Any:
    kind = EigenProRegressor if shape.task == REGRESSION else EigenProClassifier
    return kind(epochs=size, random_state=shape.seed, **settings)


def _usual_xrfm(_: ProblemFacts) -> Hyperparameters:
    # The library's default split fits many more rows first, which a processor can't afford.
    return {"split_method": "random_pca"}


def _draw_xrfm(rng: np.random.Generator, shape: ProblemFacts) -> Hyperparameters:
    return _usual_xrfm(shape) | {
        "bandwidth": log_uniform(rng, 1.0, 100.0),
        "reg": log_uniform(rng, 1e-4, 0.3),
        "exponent": float(rng.uniform(0.7, 1.4)),
        "iters": int(rng.choice([1, 3, 5])),
    }


def _xrfm(settings: Hyperparameters, size: int, shape: ProblemFacts) -> Any:
    kind = XRFMRegressor if shape.task == REGRESSION else XRFMClassifier
    return kind(max_leaf_size=size, random_state=shape.seed, **settings)


METHODS: dict[str, Contender] = dict(CONTENDERS) | {
    "falkon": Contender("Falkon", usual_kernel, _EUCLIDEAN, _falkon, (300, 1000, 3000), 1000, "centres"),
    "eigenpro": Contender("EigenPro", _usual_eigenpro, _draw_eigenpro, _eigenpro, (3, 10), 10, "epochs"),
    "xrfm": Contender("xRFM", _usual_xrfm, _draw_xrfm, _xrfm, (1000, 3000), 3000, "rows of a leaf"),
}
#: Method → the library that it needs.
NEEDS = {"falkon": "Falkon", "eigenpro": "EigenPro", "xrfm": "xRFM"}


def available() -> list[str]:
    """Name the methods whose libraries are installed."""
    there = installed()
    return [name for name in METHODS if name not in NEEDS or there[NEEDS[name]]]


def load_library(method: str) -> None:
    """Import what a method needs, so that its first fit is not charged for that."""
    if method in NEEDS:
        require(NEEDS[method])


def absent() -> dict[str, str]:
    """Return, for each library that is not installed, how to install it."""
    there = installed()
    return {name: peer.install for name, peer in PEERS.items() if not there[name]}


def check(names: list[str]) -> list[str]:
    """Return the names, or say which is unknown or not installed."""
    for name in names:
        if name not in METHODS:
            raise InputError(
                f"method {name!r} is unknown.{did_you_mean(name, METHODS)} There are: {', '.join(METHODS)}."
            )
        if name in NEEDS and NEEDS[name] in absent():
            needed = NEEDS[name]
            raise InputError(
                f"method {name!r} needs {needed}, which is not installed. Install it {absent()[needed]}"
            )
    return names
