"""Displays of the library's results: each class stores its numbers and draws them with ``plot``.

They follow scikit-learn's displays: ``Display.from_estimator(...)`` computes and draws, and the constructor
takes stored numbers. After drawing, ``figure_`` and ``ax_`` (``axes_`` if there are several) hold the figure
and its axes. matplotlib is imported at the first drawing: ``pip install 'gramian[plot]'``.
"""

from gramian.plotting.alpha_path import AlphaPathDisplay
from gramian.plotting.bars import ImportanceDisplay
from gramian.plotting.error_memory import ErrorMemoryDisplay
from gramian.plotting.explanation import ExplanationDisplay
from gramian.plotting.frontier import FrontierDisplay
from gramian.plotting.gram import GramDisplay
from gramian.plotting.learning import LearningDisplay
from gramian.plotting.posterior import PosteriorDisplay
from gramian.plotting.spectrum import SpectrumDisplay

__all__ = [
    "AlphaPathDisplay",
    "ErrorMemoryDisplay",
    "ExplanationDisplay",
    "FrontierDisplay",
    "GramDisplay",
    "ImportanceDisplay",
    "LearningDisplay",
    "PosteriorDisplay",
    "SpectrumDisplay",
]
