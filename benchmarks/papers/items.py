"""Items of a paper: each a table, a figure or a claim, with the values that its measurement yields."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from suite.results import Line


@dataclass(frozen=True)
class Value:
    """One measured number, and the paper's where the paper prints it."""

    method: str
    measure: str  #: "relative error", "rmse", "accuracy", …; accuracies and errors are fractions
    value: float
    setting: dict[str, Any] = field(default_factory=dict)
    published: float | None = None
    seconds: float | None = None  #: of the fit


@dataclass(frozen=True)
class Run:
    """How much is measured: everything, or in minutes a part that shows the same."""

    quick: bool = False

    def seeds(self, full: int) -> range:
        """Return the seeds of a measurement that has ``full`` of them in a whole run."""
        return range(1 if self.quick else full)

    def rows(self, full: int) -> int:
        """Return how many rows are taken where a whole run takes ``full``."""
        return min(full, 2000) if self.quick else full


@dataclass(frozen=True)
class Item:
    """A table, a figure or a claim of a paper, on each of its sets."""

    name: str  #: "table 2", "figure 16", "section 2", …
    sets: tuple[str, ...]  #: names of data sets, or of problems that are made
    measure: Callable[[str, Run], Iterator[Value]]  #: of one set
    #: The part of ``setting`` that a figure has on its horizontal axis; a table has none.
    across: str | None = None
    #: The measure that a figure of trade-offs has on its horizontal axis, in place of a part of ``setting``.
    against: str | None = None
    logarithmic: str = "xy"  #: axes of the figure with a logarithmic scale
    #: Markdown computed from the stored lines, under the table: what they say beside the paper's claim.
    verdict: Callable[[list[Line]], str] | None = None


@dataclass(frozen=True)
class Paper:
    key: str  #: "meka", "survey", "kals", "bbf" or "dcpred"
    page: str  #: name of its page in docs/papers
    items: tuple[Item, ...]

    def item(self, name: str) -> Item | None:
        """Return the item of a name."""
        return next((item for item in self.items if item.name == name), None)
