"""Options of a dataset when it is opened: target, columns, categories."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

REFUSE, ONEHOT, DROP = "refuse", "onehot", "drop"
#: Columns keep whatever types they have: rows of a table, not of numbers.
AS_STORED = "as stored"


@dataclass(frozen=True, slots=True)
class Choice:
    """Options of ``open_data``, as the formats read them."""

    target: str | tuple[str, ...] | None = None
    #: Target of an earlier source, which is taken where the new rows have it.
    target_like: str | tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    categorical: str = REFUSE
    key: str | None = None
    categories: dict[str, tuple[str, ...]] | None = None  #: of an earlier source; None: learned at opening
    n_features: int | None = None  #: of an earlier source; svmlight files leave zeros out
    zero_based: bool | None = None  #: whether svmlight counts features from 0; None: seen at opening
    floats: bool = False  #: whether columns of integers are read as floats
    text: tuple[str, ...] = ()  #: columns of a CSV file that are text though their cells look like numbers
    keep_bytes: float = 0.0  #: bytes of parsed rows that may be kept in memory

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the target columns."""
        if self.target is None:
            return ()
        return (self.target,) if isinstance(self.target, str) else self.target

    def for_columns(self, names: Collection[str]) -> Choice:
        """Return the choice for rows with these columns: with the earlier source's target if all have it."""
        taken = replace(self, target=self.target_like)
        known = self.target is None and all(name in names for name in taken.targets)
        return taken if known else self
