"""Options for opening a dataset: target, columns, categories."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from gramian.data.missing import MISSING
from gramian.exceptions import InputError

REFUSE, ONEHOT, DROP = "refuse", "onehot", "drop"
#: Keep the columns' stored types, for a table with more than numbers.
AS_STORED = "as stored"


@dataclass(frozen=True, slots=True)
class FileOptions:
    """Options of ``open_data``, in the form that the formats read."""

    target: str | tuple[str, ...] | None = None
    #: Target of an earlier source, used if the new rows have it.
    target_like: str | tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()  #: columns that are no features, where ``columns`` names none
    categorical: str = REFUSE
    key: str | None = None
    categories: dict[str, tuple[str, ...]] | None = None  #: of an earlier source; None: learn at opening
    n_features: int | None = None  #: of an earlier source; svmlight files leave zeros out
    zero_based: bool | None = None  #: whether svmlight counts features from 0; None: detect at opening
    floats: bool = False  #: whether integer columns are read as floats
    text: tuple[str, ...] = ()  #: columns of a CSV file that are text although their cells look like numbers
    numeric: tuple[str, ...] = ()  #: columns of a CSV file that are numbers although some have leading zeros
    missing: tuple[str, ...] = MISSING  #: text that is a missing value, besides blank cells
    sep: str | None = None  #: character between the columns of a CSV file; None: detect
    encoding: str | None = None  #: of a CSV file; None: UTF-8
    keep_bytes: float = 0.0  #: bytes of parsed rows that may stay in memory

    def refuse_csv_options(self, what: str) -> None:
        """Raise if an option was given that only CSV files have; ``what`` says what the data are."""
        given = {
            "the separator of the columns": self.sep,
            "the encoding": self.encoding,
            "columns to read as text": self.text,
        }
        for name in (name for name, value in given.items() if value):
            raise InputError(f"{what}, but {name} can be given for CSV files only. Leave it out.")

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the target columns."""
        if self.target is None:
            return ()
        return (self.target,) if isinstance(self.target, str) else self.target

    def for_columns(self, names: Collection[str]) -> FileOptions:
        """Return the choice for rows with these columns; an earlier source's target needs all its columns."""
        taken = replace(self, target=self.target_like)
        known = self.target is None and all(name in names for name in taken.targets)
        return taken if known else self
