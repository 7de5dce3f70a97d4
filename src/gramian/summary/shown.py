"""Display of objects that have a summary, in notebooks and by rich."""

from __future__ import annotations

from typing import Any

from gramian.summary.html import fragment
from gramian.summary.value import Summary


class Shown:
    """Base of objects that display their :meth:`summary`: as HTML in a notebook, as a table in rich.

    ``print`` and ``repr`` are left to the object. rich calls ``__rich__``, so only then is it imported.
    """

    def summary(self) -> Summary:
        """Return a summary of the object."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return fragment(self.summary())

    def __rich__(self) -> Any:
        # Imported here: rich is an optional package, and only rich calls this method.
        from gramian.summary.terminal import renderable

        return renderable(self.summary())
