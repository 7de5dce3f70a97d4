"""Display of estimators: the summary of a fit below scikit-learn's diagram, and in a terminal.

Nothing is computed for it, and nothing raises: a model that cannot be summarised is shown with the reason.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from gramian.summary import Summary
from gramian.summary.html import fragment


def check_has_fit(model: BaseEstimator) -> None:
    """Raise ``NotFittedError`` for an estimator without a fit to summarise."""
    check_is_fitted(model, msg="This %(name)s is not fitted: call fit before summary.")


def shown_summary(model: BaseEstimator) -> Summary | None:
    """Return the summary of a fitted estimator, or None before a fit."""
    try:
        found: Summary = model.summary()
        return found
    except NotFittedError:
        return None
    # A notebook that prints a model should never end in a traceback.
    except Exception as error:
        text = f"The summary could not be made ({type(error).__name__}: {error}). Please report this."
        return Summary(type(model).__name__, (), warnings=(text,))


def below_diagram(model: BaseEstimator, diagram: str) -> str:
    """Return scikit-learn's diagram of an estimator, followed by the summary of a fitted one."""
    summary = shown_summary(model)
    return diagram if summary is None else diagram + fragment(summary)


def rich_text(model: BaseEstimator) -> Any:
    """Return what rich prints for an estimator: its summary, or its ``repr`` before a fit."""
    # rich is an optional package, and whoever calls this has it.
    from gramian.summary.terminal import plain, renderable

    summary = shown_summary(model)
    return plain(repr(model)) if summary is None else renderable(summary)
