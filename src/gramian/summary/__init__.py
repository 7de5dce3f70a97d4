"""Summaries of models, plans and reports as text, as HTML and in a terminal."""

from gramian.summary.shown import Shown
from gramian.summary.value import Grid, Summary, rounded, short, spread_grid

__all__ = ["Grid", "Shown", "Summary", "rounded", "short", "spread_grid"]
