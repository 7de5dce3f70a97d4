"""Efforts of a table's fit: how long it looks for the best model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gramian.exceptions import InputError

#: Changed rows that importances ask the models about, at most, in two looks, so that they take about a
#: twentieth of a fit; kernel matrices of all rows that a last fit computes at least, and landmarks that stand
#: for all rows if it is not exact. Chosen by hand.
ASKED, KERNELS, LANDMARKS = 12_000, 8, 500
#: Boosting is tried from so many rows. Chosen by hand.
BOOSTED_ROWS = 200


@dataclass(frozen=True)
class TableEffort:
    """How much a fit does.

    search_rows : rows that each round of the search fits; rounds, round_rows : most rounds that refine the
    metric on more rows, and how many rows these fit in a regression and in a classification; mean : whether
    the mean with a kernel of the other norm is tried; exact : whether models of more rows than one
    factorisation takes are exact; logistic : whether exact models of classes get logistic ones; scalings :
    whether scalings are compared; compare : whether kernels and metrics are, else one Laplacian kernel is
    taken; folds : whether every row of a small table is held out once and sizes of trees are compared, else
    one hold-out scores boosting and kernel models; n_predictions : rows that importances predict.
    """

    search_rows: tuple[int, ...]
    rounds: int
    round_rows: tuple[int, int]
    mean: bool
    exact: bool
    logistic: bool = True
    scalings: bool = True
    compare: bool = True
    folds: bool = True
    n_predictions: int = ASKED

    def leaves_out_all(self, n: int) -> bool:
        """Return whether models of a small table come without each fifth of its n rows, or without one part.

        A part of fewer rows than boosting takes would say too little.
        """
        return self.folds or n < BOOSTED_ROWS

    def entries(self, n: int, time_limit: float | None) -> int:
        """Return for how many entries of kernels a fit to n rows may compile loops: those that it computes.

        Under a time limit there may be no time.

        >>> EFFORTS["default"].entries(1_000, None), EFFORTS["default"].entries(1_000, 10.0)
        (8000000, 0)
        """
        return KERNELS * n * (n if self.exact else LANDMARKS) if time_limit is None else 0


#: The numbers are chosen by hand.
FAST = TableEffort(
    search_rows=(400,),
    rounds=1,
    round_rows=(3_000, 3_000),
    mean=False,
    exact=False,
    logistic=False,
    scalings=False,
    folds=False,
    n_predictions=6_000,
)
EFFORTS = {
    "instant": replace(FAST, rounds=0, compare=False, n_predictions=3_000),
    "fast": FAST,
    "default": TableEffort((400, 1_000), 5, (10_000, 20_000), mean=True, exact=True),
    "best": TableEffort((400, 1_000), 10, (20_000, 20_000), mean=True, exact=True),
}
DEFAULT = "default"
#: What may join the kernel models, and the word for all of it.
BOOSTING, AUTO = "boosting", "auto"


def with_boosting(include: object) -> bool:
    """Return whether boosting is tried; raise unless ``include`` is "auto" or names nothing but boosting."""
    if isinstance(include, str) and include == AUTO:
        return True
    if isinstance(include, str) or not isinstance(include, Sequence) or set(include) - {BOOSTING}:
        raise InputError(
            f"include={include!r} must be '{AUTO}', ('{BOOSTING}',), or () for kernel models alone."
        )
    return bool(include)
