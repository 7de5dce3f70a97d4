"""Efforts of a table's fit: how long it looks for the best model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gramian.exceptions import InputError


@dataclass(frozen=True)
class TableEffort:
    """How much a fit does.

    search_rows : rows that each round of the search fits; rounds, round_rows : most rounds that refine the
    metric on more rows, and how many rows these fit in a regression and in a classification; mean : whether
    the mean with a kernel of the other norm is tried; exact : whether models of more rows than one
    factorisation takes are exact; boosting : whether boosting is tried; logistic : whether logistic models
    are fitted beside exact models of classes; compare : whether scalings, kernels, metrics and sizes of trees
    are compared. If not, one Laplacian kernel is taken, and one hold-out judges boosting.
    """

    search_rows: tuple[int, ...]
    rounds: int
    round_rows: tuple[int, int]
    mean: bool
    exact: bool
    boosting: bool = True
    logistic: bool = True
    compare: bool = True


#: The numbers are chosen by hand.
EFFORTS = {
    "instant": TableEffort((400,), 0, (3_000, 3_000), mean=False, exact=False, logistic=False, compare=False),
    "fast": TableEffort((400,), 1, (3_000, 3_000), mean=False, exact=False, logistic=False),
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
