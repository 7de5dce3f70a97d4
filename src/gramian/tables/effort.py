"""Efforts of a table's fit: how long it looks for the best model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How much a fit does.

    search_rows : rows that each round of the search fits; rounds, round_rows : most rounds that refine the
    metric on more rows, and how many rows these fit in a regression and in a classification; mean : whether
    the mean with a kernel of the other norm is tried; exact : whether models of more rows than one
    factorisation takes are exact.
    """

    search_rows: tuple[int, ...]
    rounds: int
    round_rows: tuple[int, int]
    mean: bool
    exact: bool


#: The numbers are chosen by hand.
EFFORTS = {
    "fast": Effort((400,), 1, (3_000, 3_000), mean=False, exact=False),
    "default": Effort((400, 1_000), 5, (10_000, 20_000), mean=True, exact=True),
    "best": Effort((400, 1_000, 3_000), 10, (20_000, 20_000), mean=True, exact=True),
}
DEFAULT = "default"
