"""Explanations of single predictions: which rows and which columns they come from."""

from gramian.explanation.explaining import explain
from gramian.explanation.suspects import suspects
from gramian.explanation.value import Explanation

__all__ = ["Explanation", "explain", "suspects"]
