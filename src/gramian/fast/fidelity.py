"""Agreement of a fast model with its teacher on held-out rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from gramian._typing import Array, Float64Array
from gramian.estimator.answers import likeliest
from gramian.exceptions import AccuracyWarning, user_level

#: Values of ``Fidelity.measure``: the fraction of rows with the teacher's class, or R² with the teacher's
#: predictions as targets.
SAME_CLASS, EXPLAINED = "same class", "R²"
#: Caveat for rows that the teacher may have been trained on.
TEACHER_SAW = "; if the teacher was trained on these rows, the agreement on new rows may be lower"

#: Agreement with a fitted teacher below which a fit warns, if it uses less than this part of its budget.
#: Chosen by hand.
LOW_AGREEMENT, LITTLE_USED = 0.9, 0.5


@dataclass(frozen=True)
class Fidelity:
    """Agreement with the teacher on rows that the fast model had not learned from.

    measure : "same class" for the fraction of rows with the teacher's class, "R²" for the fraction of the
        variance of the teacher's predictions that the model explains (all outputs together, each in units of
        its spread).
    value, standard_error : the agreement, and the uncertainty of it that comes from the number of rows.
    n_rows : number of held-out rows.
    teacher_saw : whether the teacher was fitted elsewhere, possibly on these rows. A teacher that fits its
        training rows closely, such as a forest, is then imitated better here than on new rows.

    The held-out rows also chose the shape, which makes the value slightly too good; if they are few they are
    learned from afterwards, which makes the final model slightly better than the value.

    >>> print(Fidelity("same class", 0.968, 0.004, 1_800))
    96.8 % ± 0.4 % of 1,800 held-out rows have the teacher's class
    >>> print(Fidelity("R²", 0.9912, 0.0004, 1_800))
    R² 0.9912 ± 0.0004 to the teacher on 1,800 held-out rows
    >>> print(Fidelity("R²", 0.9912, 0.0004, 1_800, teacher_saw=True))  # doctest: +ELLIPSIS
    R² 0.9912 ± 0.0004 to the teacher on 1,800 held-out rows; if the teacher was trained on these rows, ...
    """

    measure: str
    value: float
    standard_error: float
    n_rows: int
    teacher_saw: bool = False

    def __str__(self) -> str:
        return self.agreement + (TEACHER_SAW if self.teacher_saw else "")

    @property
    def agreement(self) -> str:
        """The measured agreement, without a caveat."""
        if self.measure == SAME_CLASS:
            value, error = 100.0 * self.value, 100.0 * self.standard_error
            return f"{value:.1f} % ± {error:.1f} % of {self.n_rows:,} held-out rows have the teacher's class"
        return (
            f"R² {self.value:.4f} ± {self.standard_error:.4f} to the teacher on {self.n_rows:,} held-out rows"
        )


def warn_if_low(fidelity: Fidelity, used: float, cost: str | float) -> None:
    """Warn if the agreement with a teacher is low although most of the budget is left.

    used : the part of the budget that the model takes.
    """
    if used >= LITTLE_USED or fidelity.value + 2.0 * fidelity.standard_error >= LOW_AGREEMENT:
        return
    warnings.warn(
        f"{fidelity.agreement}, and the model takes only {100.0 * used:.0f} % of cost={cost!r}: the search "
        "found no better shape. Give more rows (unlabelled= needs no labels), a larger time_limit, or "
        "sizes (n_levels, n_units, n_directions).",
        AccuracyWarning,
        stacklevel=user_level(),
    )


def same_class(values: Float64Array, teacher_values: Float64Array, weights: Array) -> Fidelity:
    """Compare the classes of decision values (n, outputs) with those of the teacher's.

    The standard error is that of (p n + 1)/(n + 2), so that it is not 0 if all classes agree.
    """
    equal = likeliest(values) == likeliest(teacher_values)
    value = float(np.average(equal, weights=weights))
    count = float(weights.sum() ** 2 / np.square(weights).sum())  # effective number of rows
    near = (value * count + 1.0) / (count + 2.0)
    return Fidelity(SAME_CLASS, value, float(np.sqrt(near * (1.0 - near) / count)), len(values))


def explained_variance(values: Float64Array, teacher_values: Float64Array, weights: Array) -> Fidelity:
    """Return R² = 1 − Σ w ‖t − f‖²/Σ w ‖t − t̄‖² of values f (n, outputs) to the teacher's values t.

    The standard error follows from a linearisation of the ratio. If the teacher is constant, the value is 1
    for equal values and 0 for others.
    """
    left = np.square(teacher_values - values).sum(axis=1)
    whole = np.square(teacher_values - np.average(teacher_values, axis=0, weights=weights)).sum(axis=1)
    total = float(weights @ whole)
    if not total > 0:
        return Fidelity(EXPLAINED, float(not left.any()), 0.0, len(values))
    ratio = float(weights @ left) / total
    error = float(np.linalg.norm(weights * (left - ratio * whole))) / total
    return Fidelity(EXPLAINED, 1.0 - ratio, error, len(values))
