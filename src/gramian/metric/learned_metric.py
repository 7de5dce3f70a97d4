"""Settings for learning a metric: the value behind ``metric="diagonal"``."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from sklearn.base import BaseEstimator

from gramian._checks import not_negative, one_of, positive_number, whole_number
from gramian.exceptions import InputError
from gramian.metric.learning import MetricLearningSettings
from gramian.metric.outer_product import FORMS


@dataclass(eq=False, repr=False)
class LearnedMetric(BaseEstimator):
    r"""A metric learned with the model, for ``metric=`` of the estimators: how it is learned.

    One bandwidth for all features throws accuracy away where few of them matter. Rounds of fit → average
    outer product of its gradients M = E ∇f ∇fᵀ → metric M^p → refit find out which ones do (recursive feature
    machines). They use some of the rows. The round with the least error on held-out rows is kept, which may
    be the one without a metric. Then the model is fitted to all rows under that metric, with landmarks chosen
    in it.
    ``metric="diagonal"`` is ``gm.LearnedMetric()``, ``metric="full"`` is ``gm.LearnedMetric("full")``.

    Parameters
    ----------
    form : {"diagonal", "full"}, default="diagonal"
        A scale for each feature, or a matrix (d, d) that mixes them: O(d³) time, O(d²) memory, and sparse
        rows become dense.
    rounds : int, default=5
        At most.
    powers : sequence of float, default=(0.5, 1.0)
        Powers of M to choose from in each round: 0 would change nothing, 1 makes f change alike in every
        direction.
    bandwidth : {"auto", True, False}, default="auto"
        Whether a factor of all distances is chosen in each round too, by small fits; it is part of
        ``metric_``. "auto" does so for a kernel by name with ``gamma=None``.
    patience : int, default=1
        Rounds without progress after which learning goes on.
    rows : int, default=10_000
        Rows to learn from at most, drawn at random from those of positive weight (fewer where they would take
        an eighth of the memory budget); under 60 rows nothing is learned.
    held_out : float, default=0.2
        Fraction of these rows that is held out for validation, at most 4,000 rows.
    gradient_rows : int, default=2_000
        Rows at which gradients are taken, at most.
    switched : sequence of groups of columns, default=()
        Columns to be switched between their values in place of a derivative, such as the one-hot columns of a
        category: ``[(4, 5, 6)]``. Those of two values are found, and switched, in any case.
    floor : float, default=1e-4
        Least eigenvalue of the metric, as a part of the largest.

    A round is undone where its held-out predictions are not finite, lie outside of the targets' range by
    three times its width, or have a larger error than those without a metric; the next one begins from the
    best with half the power. See :mod:`gramian.metric.from_gradients` for power and floor.

    Source: Radhakrishnan, Beaglehole, Pandit and Belkin 2024.

    Examples
    --------
    >>> import numpy as np, gramian as gm
    >>> X = np.random.default_rng(0).standard_normal((1000, 10))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1]
    >>> plain = gm.KernelRidge(0.1, random_state=0).fit(X[:800], y[:800])
    >>> model = gm.KernelRidge(0.1, metric=gm.LearnedMetric(rounds=3), random_state=0).fit(X[:800], y[:800])
    >>> bool(model.score(X[800:], y[800:]) > 0.95 > plain.score(X[800:], y[800:]))
    True
    >>> bool(model.feature_importances_[:2].sum() > 0.8)
    True
    """

    form: str = "diagonal"
    _: KW_ONLY
    rounds: int = 5
    powers: Any = (0.5, 1.0)
    bandwidth: Any = "auto"
    patience: int = 1
    rows: int = 10_000
    held_out: float = 0.2
    gradient_rows: int = 2_000
    switched: Any = ()
    floor: float = 1e-4

    def settings(self, *, free: bool) -> MetricLearningSettings:
        """Return the checked settings of the rounds; ``free`` says what bandwidth="auto" is."""
        one_of("form", self.form, FORMS)
        if self.bandwidth not in ("auto", True, False):
            raise InputError(f"bandwidth={self.bandwidth!r} is unknown. Give 'auto', True or False.")
        powers = self.powers
        if isinstance(powers, str) or not isinstance(powers, Iterable) or not list(powers):
            raise InputError(f"powers={powers!r} must be numbers to choose from, such as (0.5, 1.0).")
        return MetricLearningSettings(
            form=self.form,
            rounds=whole_number("rounds", self.rounds, 1),
            powers=tuple(positive_number(f"powers[{i}]", p) for i, p in enumerate(powers)),
            bandwidth=free if self.bandwidth == "auto" else bool(self.bandwidth),
            patience=whole_number("patience", self.patience, 0),
            floor=_share("floor", self.floor, not_negative),
        )

    def sizes(self) -> tuple[int, float, int]:
        """Return the checked numbers: rows, share held out, rows of gradients."""
        return (
            whole_number("rows", self.rows, 60),
            _share("held_out", self.held_out, positive_number),
            whole_number("gradient_rows", self.gradient_rows, 1),
        )


def _share(name: str, value: object, checked: Callable[[str, object], float]) -> float:
    """Return a number under 1."""
    number = float(checked(name, value))
    if not isinstance(value, numbers.Real) or number >= 1:
        raise InputError(f"{name}={value!r} must be under 1.")
    return number
