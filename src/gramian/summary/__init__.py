"""Summaries of models, plans and reports as text, as HTML and in a terminal."""

from gramian.summary.shown import Shown
from gramian.summary.value import Grid, Summary, round_decimals, short, spread_grid

__all__ = ["Grid", "Shown", "Summary", "round_decimals", "short", "spread_grid"]
