"""Parameters that say "auto": which of an estimator's do, what goes with them, the kernel that is chosen."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from gramian.approximations.setup import FitSetup
from gramian.data.distributed import Partitioned
from gramian.estimator.base import KernelEstimator
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import InputError
from gramian.kernels import Exponential, Gaussian, Kernel, Laplacian, Matern
from gramian.kernels.resolve import PRECOMPUTED, WITHOUT_GAMMA
from gramian.metric.learned_metric import LearnedMetric
from gramian.selection.kernel_choice import LEAST_ROWS, KernelChoice, choose_kernel

AUTO = "auto"
#: What parameters that are "auto" stand for in plans, before a search, and where there are too few rows to
#: choose by; alpha and C then follow the weights (:func:`searchable`).
USUAL: dict[str, Any] = {"kernel": "rbf", "gamma": None, "alpha": 1.0, "C": 1.0}
#: Kernels that ``kernel="auto"`` compares.
FAMILIES: tuple[Kernel, ...] = (Gaussian(), Matern(nu=1.5), Exponential(), Laplacian())


def automatic(model: KernelEstimator, *names: str) -> tuple[str, ...]:
    """Return those of these parameters that are "auto" in an estimator."""
    values = ((name, getattr(model, name)) for name in names)
    return tuple(name for name, value in values if isinstance(value, str) and value == AUTO)


def check_automatic(model: KernelEstimator, rows: LabelledRows[Any], asked: tuple[str, ...]) -> None:
    """Raise where another parameter cannot go with those that are "auto"."""
    if not asked:
        return
    what = " and ".join(f"{name}='auto'" for name in asked)
    if isinstance(rows.source, Partitioned):
        raise InputError(f"{what} needs rows on this machine. Give a number, or fit to arrays first.")
    if getattr(model, "checkpoint", None) is not None:
        raise InputError(
            f"{what} was given with checkpoint={model.checkpoint!r}, but several fits are compared, which "
            "cannot be continued. Pass checkpoint=None, or the values of an earlier fit."
        )
    kernel = {"kernel", "gamma"} & set(asked)
    if not kernel:
        return
    if isinstance(getattr(model, "metric", None), str | LearnedMetric):
        raise InputError(
            f"{what} was given with metric={model.metric!r}: both would learn the distance. Pass "
            "metric=None, or name a kernel and leave gamma out."
        )
    if isinstance(model.approximation, FrozenEstimator):
        raise InputError(
            f"{what} was given with FrozenEstimator, whose kernel is fixed. Leave the kernel parameters at "
            "their defaults."
        )
    if "kernel" in asked and model.gamma is not None and "gamma" not in asked:
        raise InputError(
            f"kernel='auto' was given with gamma={model.gamma!r}, but it chooses lengthscales of its own. "
            "Pass gamma=None, or name a kernel."
        )
    if "kernel" not in asked and (
        not isinstance(model.kernel, str) or model.kernel in (PRECOMPUTED, *WITHOUT_GAMMA)
    ):
        raise InputError(
            f"gamma='auto' was given with kernel={model.kernel!r}, which has no gamma to choose. Pass "
            "the name of a kernel, such as 'rbf'."
        )


def with_values(model: KernelEstimator, **values: Any) -> Any:
    """Return an unfitted copy of an estimator with these parameters."""
    return type(model)(**{**model.get_params(deep=False), **values})


def with_usual(model: KernelEstimator, asked: tuple[str, ...]) -> Any:
    """Return an unfitted copy of an estimator with the usual values of those parameters that are "auto"."""
    if "kernel" in asked:
        asked = (*asked, "gamma")
    return with_values(model, **{name: USUAL[name] for name in asked})


def searchable(rows: LabelledRows[Any]) -> tuple[LabelledRows[Any], float]:
    """Return rows with weights for a search of their penalty, and the ridge penalty before a search.

    Fewer than 40 rows are not searched: their penalty is the sum of the weights over 40, so that it matters
    neither in which unit the weights are, nor whether a row of weight 2 is written twice.
    """
    if len(rows.counted) < LEAST_ROWS:
        return rows, rows.mass / LEAST_ROWS
    return rows.relative(), USUAL["alpha"]


def chosen_kernel(
    setup: FitSetup,
    rows: LabelledRows[Any],
    asked: tuple[str, ...],
    *,
    intercept: bool,
    rng: np.random.Generator,
) -> KernelChoice | None:
    """Return the kernel chosen for rows that are ready for it.

    ``setup`` has the usual values of the parameters that are "auto". None where neither kernel nor gamma was
    asked for, and for too few rows to choose by.
    """
    if not {"kernel", "gamma"} & set(asked):
        return None
    one = setup.kernel.resolve(rows.source.shape[1])  # in any case: it tells of parameters that are wrong
    return choose_kernel(
        rows,
        FAMILIES if "kernel" in asked else (one,),
        each_feature="kernel" in asked,
        intercept=intercept,
        rng=rng,
        memory_bytes=setup.resources.memory_bytes,
        phases=setup.phases,
    )
