"""Contenders of a comparison: gramian and scikit-learn models, each with the distributions to search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.kernel_ridge import KernelRidge as DenseKernelRidge
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from gramian._random import as_generator
from gramian._typing import Array, RandomState
from gramian.approximations.multiresolution import MultiResolution
from gramian.exceptions import InputError
from gramian.fast.estimators import FastKernelClassifier, FastKernelRegressor
from gramian.kernels.resolve import kernel_from_spec
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier

REGRESSION, CLASSIFICATION = "regression", "classification"
#: Searched ranges, chosen by hand. GAMMAS is gamma·d for features of deviation 1, whose mean ‖x − y‖² is 2d;
#: PENALTIES is C of an SVM.
GAMMAS = (0.03, 10.0)
ALPHAS = (1e-4, 10.0)
PENALTIES = (0.1, 1000.0)
#: Rows of a block if the size is not ``auto``. Chosen by hand.
BLOCK_ROWS = 650

#: Hyperparameters by name.
Hyperparameters = dict[str, Any]


@dataclass(frozen=True)
class ProblemFacts:
    """Facts about a problem that a contender may use before it is fitted."""

    task: str
    n_rows: int
    n_features: int
    seed: int = 0

    @staticmethod
    def of(task: str, X: Array, seed: int = 0) -> ProblemFacts:
        """Return the shape of these rows."""
        if task not in (REGRESSION, CLASSIFICATION):
            raise InputError(f"task={task!r}; expected {REGRESSION!r} or {CLASSIFICATION!r}.")
        return ProblemFacts(task, X.shape[0], X.shape[1], seed)


@dataclass(frozen=True)
class Contender:
    """A method with the settings to search and the sizes to show.

    Parameters
    ----------
    name : name in tables.
    start : returns the settings of the first candidate, the method's usual ones.
    draw : returns random settings from a generator and a shape.
    build : returns the unfitted model for settings, a size and a shape; rows will be scaled.
    sizes : sizes that trade accuracy for cost, from small to large.
    usual_size : size used in the search.
    size_name : name of what a size counts.
    tasks : tasks that the method can do.
    settings_of : name of the contender whose settings it uses, if it is not searched itself.
    own_search : whether the library's own choice of a kernel takes the place of random candidates.
    """

    name: str
    start: Callable[[ProblemFacts], Hyperparameters]
    draw: Callable[[np.random.Generator, ProblemFacts], Hyperparameters]
    build: Callable[[Hyperparameters, Any, ProblemFacts], Any]
    sizes: tuple[Any, ...]
    usual_size: Any
    size_name: str
    tasks: tuple[str, ...] = (REGRESSION, CLASSIFICATION)
    settings_of: str | None = None
    own_search: bool = False

    def make(self, settings: Hyperparameters, shape: ProblemFacts, size: object = None) -> Any:
        """Return an unfitted model that scales features, and the target of a regression, by itself."""
        model = make_pipeline(
            StandardScaler(), self.build(settings, self.usual_size if size is None else size, shape)
        )
        if shape.task == REGRESSION:
            return TransformedTargetRegressor(model, transformer=StandardScaler(), check_inverse=False)
        return model

    def candidates(self, shape: ProblemFacts, seed: int) -> Any:
        """Yield settings without end: the usual ones, then random ones determined by the seed."""
        rng = as_generator(seed)
        yield self.start(shape)
        while True:
            yield self.draw(rng, shape)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number whose logarithm is uniform between those of ``low`` and ``high``."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


class OnSomeRows(BaseEstimator):
    """A model fitted to at most ``n_rows`` random rows, for methods that need n² numbers."""

    def __init__(self, model: BaseEstimator, n_rows: int, random_state: RandomState = None) -> None:
        self.model = model
        self.n_rows = n_rows
        self.random_state = random_state

    def fit(self, X: Array, y: Array) -> Self:
        """Fit a clone of the model to the rows drawn."""
        n = X.shape[0]
        rng = as_generator(self.random_state)
        chosen = np.sort(rng.choice(n, self.n_rows, replace=False)) if n > self.n_rows else slice(None)
        self.model_ = clone(self.model).fit(X[chosen], np.asarray(y)[chosen])
        return self

    def predict(self, X: Array) -> Array:
        """Predict with the fitted clone."""
        return self.model_.predict(X)


# ---- spaces ------------------------------------------------------------------------------------


def usual_kernel(shape: ProblemFacts) -> Hyperparameters:
    """Return the Gaussian kernel with scikit-learn's gamma, and a moderate alpha."""
    return {"kernel": "rbf", "gamma": 1.0 / shape.n_features, "alpha": 0.1}


def draws_of(*kernels: str) -> Callable[[np.random.Generator, ProblemFacts], Hyperparameters]:
    """Return a function that draws one of these kernels, a gamma of comparable reach, and alpha."""

    def draw(rng: np.random.Generator, shape: ProblemFacts) -> Hyperparameters:
        kernel = str(rng.choice(kernels))
        gamma = log_uniform(rng, *GAMMAS) / shape.n_features
        # The exponential kernel decays with the distance, not with its square.
        reach = gamma**0.5 if kernel == "exponential" else gamma
        return {"kernel": kernel, "gamma": reach, "alpha": log_uniform(rng, *ALPHAS)}

    return draw


def _usual_svm(shape: ProblemFacts) -> Hyperparameters:
    return {"gamma": 1.0 / shape.n_features, "C": 1.0}


def _draw_svm(rng: np.random.Generator, shape: ProblemFacts) -> Hyperparameters:
    return {"gamma": log_uniform(rng, *GAMMAS) / shape.n_features, "C": log_uniform(rng, *PENALTIES)}


def _usual_boosting(_: ProblemFacts) -> Hyperparameters:
    return {}


def _draw_boosting(rng: np.random.Generator, _: ProblemFacts) -> Hyperparameters:
    return {
        "learning_rate": log_uniform(rng, 0.02, 0.3),
        "max_leaf_nodes": round(log_uniform(rng, 8, 128)),
        "min_samples_leaf": round(log_uniform(rng, 3, 60)),
        "l2_regularization": log_uniform(rng, 1e-6, 10.0),
    }


# ---- models ------------------------------------------------------------------------------------


def _gramian(settings: Hyperparameters, size: int | Literal["auto"], shape: ProblemFacts) -> Any:
    kind = KernelRidge if shape.task == REGRESSION else KernelRidgeClassifier
    approximation: Any = "auto"
    if size != "auto":
        approximation = MultiResolution(
            root_rank=size, rank=max(20, 2 * size // 5), n_blocks=max(2, shape.n_rows // BLOCK_ROWS)
        )
    kernel = settings["kernel"]
    if isinstance(kernel, dict):
        settings = settings | {"kernel": kernel_from_spec(kernel)}
    return kind(approximation=approximation, random_state=shape.seed, **settings)


def _fast_model(settings: Hyperparameters, size: object, shape: ProblemFacts) -> Any:
    kind = FastKernelRegressor if shape.task == REGRESSION else FastKernelClassifier
    return kind(_gramian(settings, "auto", shape), cost=size, random_state=shape.seed)


def _linear(shape: ProblemFacts, alpha: float) -> Any:
    return Ridge(alpha) if shape.task == REGRESSION else RidgeClassifier(alpha)


def _nystroem(settings: Hyperparameters, size: int, shape: ProblemFacts) -> Any:
    components = min(size, shape.n_rows)
    features = Nystroem(
        settings["kernel"], gamma=settings["gamma"], n_components=components, random_state=shape.seed
    )
    return make_pipeline(features, _linear(shape, settings["alpha"]))


def _random_features(settings: Hyperparameters, size: int, shape: ProblemFacts) -> Any:
    features = RBFSampler(gamma=settings["gamma"], n_components=size, random_state=shape.seed)
    return make_pipeline(features, _linear(shape, settings["alpha"]))


def _dense(settings: Hyperparameters, size: int, shape: ProblemFacts) -> Any:
    return OnSomeRows(DenseKernelRidge(**settings), size, shape.seed)


def _svm(settings: Hyperparameters, size: int, shape: ProblemFacts) -> Any:
    kind = SVR if shape.task == REGRESSION else SVC
    return OnSomeRows(kind(cache_size=500, **settings), size, shape.seed)


def _boosting(settings: Hyperparameters, size: int, shape: ProblemFacts) -> Any:
    kind = HistGradientBoostingRegressor if shape.task == REGRESSION else HistGradientBoostingClassifier
    return kind(max_iter=size, random_state=shape.seed, **settings)


_OURS = draws_of("rbf", "exponential", "laplacian")
_PEERS = draws_of("rbf", "laplacian")

#: Contenders by the name used in options. Each searches those of the three kernels that it offers.
CONTENDERS = {
    "gramian": Contender(
        "gramian", usual_kernel, _OURS, _gramian, (100, 300, "auto"), "auto", "root rank", own_search=True
    ),
    "compressed": Contender(
        "gramian, compressed",
        usual_kernel,
        _OURS,
        _fast_model,
        ("30x",),
        "30x",
        "cost",
        settings_of="gramian",
    ),
    "nystroem": Contender(
        "Nystroem + ridge", usual_kernel, _PEERS, _nystroem, (300, 1000, 3000), 1000, "components"
    ),
    "random_features": Contender(
        "RBFSampler + ridge",
        usual_kernel,
        draws_of("rbf"),
        _random_features,
        (300, 1000, 3000),
        1000,
        "components",
    ),
    "kernel_ridge": Contender(
        "KernelRidge, some rows",
        usual_kernel,
        _PEERS,
        _dense,
        (1000, 3000, 10_000),
        3000,
        "rows",
        (REGRESSION,),
    ),
    "svm": Contender(
        "SVC or SVR, some rows", _usual_svm, _draw_svm, _svm, (2000, 8000, 32_000), 8000, "rows"
    ),
    "boosting": Contender(
        "HistGradientBoosting", _usual_boosting, _draw_boosting, _boosting, (30, 100, 300), 100, "trees"
    ),
}
