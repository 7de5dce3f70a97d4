"""Display of objects that have a summary, in notebooks and by rich."""

from __future__ import annotations

from typing import Any

from gramian.summary.html import fragment
from gramian.summary.value import Summary


class Shown:
    """Base of what shows itself by :meth:`summary`: in a notebook as HTML, by rich as a table.

    ``print`` and ``repr`` are the object's own. rich is imported where it asks for ``__rich__`` itself.
    """

    def summary(self) -> Summary:
        """Return what there is to say about the object."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return fragment(self.summary())

    def __rich__(self) -> Any:
        # Not above: rich is an optional package, and whoever calls this has it.
        from gramian.summary.terminal import renderable

        return renderable(self.summary())
