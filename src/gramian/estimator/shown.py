"""Display of estimators: scikit-learn's diagram, and the summary of a fit below it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from gramian.estimator.summaries import is_fitted, summary_of
from gramian.summary import Grid, Summary
from gramian.summary.html import fragment


class ShownEstimator(BaseEstimator):
    """Base of the estimators: a fitted one is shown with its :class:`~gramian.summary.Summary`.

    Nothing is computed for it, and nothing raises: what cannot be summarised is shown with the reason.
    ``print`` and ``repr`` are scikit-learn's.
    """

    def _own_facts(self) -> Iterable[tuple[str, str]]:
        """Return facts that only this kind of estimator has."""
        return ()

    def _own_grids(self) -> Iterable[Grid]:
        """Return tables that only this kind of estimator has."""
        return ()

    def summary(self) -> Summary:
        """Return sizes, memory, scores, evidence of the solver, warnings and parameters of the fitted model.

        Nothing is computed from rows, so that the model may come from a file. ``print`` shows it as text.
        Time O(blocks + parameters). NotFittedError before a fit.
        """
        self._check_has_fit()
        return summary_of(self)

    def _check_has_fit(self) -> None:
        if not is_fitted(self):
            raise NotFittedError(f"This {type(self).__name__} is not fitted: call fit before summary.")

    def _shown(self) -> Summary | None:
        """Return the summary, or None of an unfitted estimator."""
        if not is_fitted(self):
            return None
        try:
            return self.summary()
        # A notebook that prints a model should never end in a traceback.
        except Exception as error:
            text = f"The summary could not be made ({type(error).__name__}: {error}). Please report this."
            return Summary(type(self).__name__, (), warnings=(text,))

    def _repr_html_inner(self) -> str:
        diagram: str = super()._repr_html_inner()
        summary = self._shown()
        return diagram if summary is None else diagram + fragment(summary)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] = self._repr_html_inner()
        return bundle

    def _get_fitted_attr_html(self, doc_link: str = "") -> dict[str, Any]:
        """Leave scikit-learn's table of learned attributes empty, also within the diagram of a pipeline.

        It would read every property, of which some compute (``cost_`` runs predictions), and write every
        block of a model as text, a second for a few hundred blocks. The summary has a table of its own.
        """
        return {}

    def __rich__(self) -> Any:
        # rich is an optional package, and whoever calls this has it.
        from gramian.summary.terminal import plain, renderable

        summary = self._shown()
        return plain(repr(self)) if summary is None else renderable(summary)
