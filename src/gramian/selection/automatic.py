"""Parameters that say "auto": what goes with them, the kernel that is chosen, the penalties to try."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.approximations.setup import FitSetup
from gramian.data.distributed import Partitioned
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.parameters import KernelParameters
from gramian.exceptions import InputError
from gramian.kernels import Exponential, Gaussian, Kernel, Laplacian, Matern
from gramian.kernels.resolve import PRECOMPUTED, WITHOUT_GAMMA
from gramian.metric.learning import LearnedMetric
from gramian.selection.kernel_choice import LEAST_ROWS, KernelChoice, choose_kernel

#: Penalties that are tried, over that of the kernel's choice: more rows call for larger ones. By hand.
BESIDE = np.logspace(-1, 3, 5)
#: Penalties that are tried for a kernel that was given, over the mean of k(x, x). By hand.
WIDE = np.logspace(-6, 2, 9)
#: Least penalty from which others are tried, over the mean of k(x, x). By hand.
LEAST = 1e-5
#: Factors of the best of these penalties that are tried after them, to both sides.
CLOSE = 10.0 ** np.array([-0.5, 0.5])
#: Penalties that cross-validation compares for a kernel that was given, over the mean of k(x, x).
USUAL_ALPHAS = np.logspace(-3, 1, 5)
#: Rows whose mean of k(x, x) is taken, at most.
LEVEL_ROWS = 1_000


def mean_diagonal(kernel: Kernel, rows: LabelledRows[Any]) -> float:
    """Return the mean of k(x, x) over some of the rows, 1 where it is 0."""
    some = rows.source.take(rows.counted[:LEVEL_ROWS])
    return float(np.mean(kernel.diagonal(some))) or 1.0


def penalty_grid(level: float, start: float | None) -> Float64Array:
    """Return ridge penalties a decade apart, ascending.

    ``level`` is the mean of k(x, x), ``start`` the penalty of the kernel's choice, None for a kernel that was
    given.
    """
    return np.asarray(level * WIDE if start is None else max(start, LEAST * level) * BESIDE, np.float64)


def fold_numbers(
    numbers: IntArray, codes: Array | None, n_folds: int, rng: np.random.Generator, n: int
) -> IntArray:
    """Return the fold of each of n rows: −1 for those that are not among ``numbers``.

    ``codes`` (n,) are class codes; each fold then has its share of every class.

    >>> fold_numbers(np.array([0, 2, 3]), None, 3, np.random.default_rng(0), 4).tolist()
    [1, -1, 2, 0]
    """
    order = rng.permutation(numbers)
    if codes is not None:
        order = order[np.argsort(codes[order], kind="stable")]
    fold = np.full(n, -1, np.intp)
    fold[order] = np.arange(len(order)) % n_folds
    return fold


AUTO = "auto"
#: What alpha and C stand for in plans and before a search, where they are "auto". With too few rows to choose
#: by they follow the weights (:func:`searchable`).
USUAL_PENALTY = 1.0
#: Kernels that ``kernel="auto"`` compares.
FAMILIES: tuple[Kernel, ...] = (Gaussian(), Matern(nu=1.5), Exponential(), Laplacian())


def is_auto(value: object) -> bool:
    """Return whether a parameter is left to the rows."""
    return isinstance(value, str) and value == AUTO


def automatic(kernel: KernelParameters, **penalty: object) -> tuple[str, ...]:
    """Return the names of those of kernel, gamma and penalty that are "auto"."""
    values = {"kernel": kernel.kernel, "gamma": kernel.gamma, **penalty}
    return tuple(name for name, value in values.items() if is_auto(value))


def _named(auto_names: tuple[str, ...]) -> str:
    return " and ".join(f"{name}='auto'" for name in auto_names)


def usual_setup(setup: FitSetup, **penalty: object) -> FitSetup:
    """Return a fit's setup with the usual kernel in place of what is "auto", and the names of that.

    ``penalty`` is the penalty by its name. Raises where another parameter cannot go with those that are
    "auto".
    """
    given, metric = setup.kernel, setup.metric
    auto_names = automatic(given, **penalty)
    if not auto_names:
        return setup
    what = _named(auto_names)
    if setup.checkpoint is not None:
        raise InputError(
            f"{what} was given with checkpoint={setup.checkpoint!r}, but several fits are compared, which "
            "cannot be continued. Pass checkpoint=None, or the values of an earlier fit."
        )
    if not {"kernel", "gamma"} & set(auto_names):
        return replace(setup, auto_names=auto_names)
    if isinstance(metric, str | LearnedMetric):
        raise InputError(
            f"{what} was given with metric={metric!r}: both would learn the distance. Pass "
            "metric=None, or name a kernel and leave gamma out."
        )
    if setup.frozen:
        raise InputError(
            f"{what} was given with FrozenEstimator, whose kernel is fixed. Leave the kernel parameters at "
            "their defaults."
        )
    if "kernel" in auto_names and given.gamma is not None and "gamma" not in auto_names:
        raise InputError(
            f"kernel='auto' was given with gamma={given.gamma!r}, but it chooses lengthscales of its own. "
            "Pass gamma=None, or name a kernel."
        )
    if "kernel" not in auto_names and (
        not isinstance(given.kernel, str) or given.kernel in (PRECOMPUTED, *WITHOUT_GAMMA)
    ):
        raise InputError(
            f"gamma='auto' was given with kernel={given.kernel!r}, which has no gamma to choose. Pass "
            "the name of a kernel, such as 'rbf'."
        )
    kernel = "rbf" if "kernel" in auto_names else given.kernel
    return replace(setup, kernel=replace(given, kernel=kernel, gamma=None), auto_names=auto_names)


def refuse_far_rows(rows: LabelledRows[Any], auto_names: tuple[str, ...]) -> None:
    """Raise where rows that lie on other machines would have to decide what is "auto"."""
    if auto_names and isinstance(rows.source, Partitioned):
        raise InputError(
            f"{_named(auto_names)} needs rows on this machine. Give a number, or fit to arrays first."
        )


def searchable(rows: LabelledRows[Any]) -> tuple[LabelledRows[Any], float]:
    """Return rows with weights for a search of their penalty, and the ridge penalty before a search.

    Fewer than 40 rows are not searched: their penalty is the sum of the weights over 40, so that it matters
    neither in which unit the weights are, nor whether a row of weight 2 is written twice.
    """
    if len(rows.counted) < LEAST_ROWS:
        return rows, rows.mass / LEAST_ROWS
    return rows.relative(), USUAL_PENALTY


def chosen_kernel(setup: FitSetup, rows: LabelledRows[Any], rng: np.random.Generator) -> KernelChoice | None:
    """Return the kernel chosen for rows that are ready for it.

    ``setup`` has the usual values of the parameters that are "auto". None where neither kernel nor gamma was
    asked for, and for too few rows to choose by.
    """
    if not {"kernel", "gamma"} & set(setup.auto_names):
        return None
    one = setup.kernel.resolve(rows.source.shape[1])  # in any case: it tells of parameters that are wrong
    return choose_kernel(
        rows,
        FAMILIES if "kernel" in setup.auto_names else (one,),
        each_feature="kernel" in setup.auto_names,
        intercept=setup.intercept,
        rng=rng,
        memory_bytes=setup.run.memory_bytes,
        phases=setup.run.phases,
    )
