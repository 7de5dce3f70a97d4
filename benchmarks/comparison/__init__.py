"""Side-by-side comparison of models: contenders, a search with equal time for all, and the cost of a fit."""

from comparison.contenders import CLASSIFICATION, CONTENDERS, REGRESSION, Contender
from comparison.equal_time import SearchResult, error_of, search
from comparison.measuring import Measured, measure, model_bytes
from comparison.peak_memory import PeakMemory

__all__ = [
    "CLASSIFICATION",
    "CONTENDERS",
    "REGRESSION",
    "Contender",
    "Measured",
    "PeakMemory",
    "SearchResult",
    "error_of",
    "measure",
    "model_bytes",
    "search",
]
