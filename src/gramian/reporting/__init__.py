"""Reports about fitted models: self-contained HTML pages with scores and pictures."""

from gramian.reporting.writing import report

__all__ = ["report"]
