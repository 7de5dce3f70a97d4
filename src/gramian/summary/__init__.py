"""Summaries of models, plans and reports as text, as HTML and in a terminal."""

from gramian.summary.html import Shown
from gramian.summary.value import Grid, Summary, aligned, round_decimals, short, spread_grid

__all__ = ["Grid", "Shown", "Summary", "aligned", "round_decimals", "short", "spread_grid"]
