"""Records, a list with a dict for each row or a structured array, as a table with named columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gramian._typing import Array
from gramian.data.arrow import pyarrow_package
from gramian.exceptions import InputError, shortened


class Records:
    """The cells of records: names of the columns, and an array of objects (n, columns).

    The columns are all keys, in the order in which they first occur. A row that lacks a key has None there.

    >>> records = Records([{"a": 1, "b": "x"}, {"b": "y"}])
    >>> records.names, records.cells.tolist()
    (('a', 'b'), [[1, 'x'], [None, 'y']])
    """

    def __init__(self, rows: Sequence[Mapping[Any, Any]]) -> None:
        other = next((i for i, row in enumerate(rows) if not isinstance(row, Mapping)), None)
        if other is not None:
            raise InputError(
                f"X is a list of dicts, but row {other} is a {type(rows[other]).__name__}. Pass a dict for "
                "each row."
            )
        places = {name: j for j, name in enumerate(dict.fromkeys(name for row in rows for name in row))}
        wrong = next((name for name in places if not isinstance(name, str)), None)
        if wrong is not None:
            raise InputError(f"X is a list of dicts with the key {wrong!r}. Name the columns by text.")
        self.names: tuple[str, ...] = tuple(places)
        self.cells: Array = np.full((len(rows), len(places)), None, object)
        for i, row in enumerate(rows):
            for name, cell in row.items():
                self.cells[i, places[name]] = cell

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self.cells), len(self.names)

    def as_arrow(self) -> Any:
        """Return the cells as an Arrow table; raise for a column of mixed values."""
        pa = pyarrow_package()
        columns = {}
        for j, name in enumerate(self.names):
            try:
                columns[name] = pa.array(np.ascontiguousarray(self.cells[:, j]), from_pandas=False)
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise InputError(
                    f"Column {name!r} of the dicts mixes values: {shortened(str(error).splitlines()[0])}. "
                    "Give each column one type."
                ) from None
        return pa.table(columns)

    @classmethod
    def of(cls, names: Sequence[str], cells: Array) -> Records:
        """Return named columns (n, columns) as records."""
        records = cls(())
        records.names, records.cells = tuple(names), cells
        return records

    @classmethod
    def of_fields(cls, rows: Array) -> Records:
        """Return a structured array (n,) as records: each field is a column; cells keep their values."""
        names = tuple(rows.dtype.names or ())
        if rows.ndim != 1 or any(rows.dtype[name].shape for name in names):
            raise InputError(
                f"X is a structured array of shape {rows.shape} and dtype {rows.dtype}; expected shape (n,) "
                "and fields of single values. Pass an array (n, d), or a frame with a column for each field."
            )
        cells: Array = np.full((len(rows), len(names)), None, object)
        for j, name in enumerate(names):
            # astype(object) would make numbers of dates in nanoseconds.
            cells[:, j] = list(rows[name])
        return cls.of(names, cells)

    def chosen(self, places: Sequence[int]) -> Records:
        """Return the same rows with the columns at these places."""
        return Records.of([self.names[j] for j in places], self.cells[:, list(places)])
