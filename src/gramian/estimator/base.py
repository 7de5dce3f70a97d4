"""The base of every estimator: checked fits, rows and kernel from the parameters, display."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, is_classifier

from gramian._typing import RowsLike
from gramian.compression.plan import Plan
from gramian.data.formats.frames import frame_kind
from gramian.data.source import KEPT, ArraySource, RowSource
from gramian.estimator.fitting import all_or_nothing as all_or_nothing
from gramian.estimator.rows import check_width, checked_rows, matched, names_known
from gramian.estimator.summaries import Fact, FitFacts, check_has_fit, shown_summary, summary_of
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.exceptions import InputError
from gramian.kernels.precomputed import StoredMatrix, StoredRows, check_kernel_matrix
from gramian.kernels.resolve import PRECOMPUTED
from gramian.summary import Summary
from gramian.summary.html import fragment


class KernelEstimator(BaseEstimator):
    """The base of every estimator: checked fits, rows and kernel from the parameters, display.

    A fitted one is shown with its :class:`~gramian.summary.Summary`; ``print`` and ``repr`` are
    scikit-learn's.
    """

    kernel: Any = None
    gamma: Any
    degree: Any
    coef0: Any
    kernel_params: Any
    approximation: Any
    random_state: Any
    memory_budget: int | str
    tile_dtype: str
    n_jobs: int | None

    #: Learned attributes that a model file keeps; each class adds its own to those of its bases.
    _learns: tuple[str, ...] = ()
    #: Attributes beside those, which a model file leaves out and the next fit replaces.
    _holds: tuple[str, ...] = ()
    #: Attributes that pickles and copies leave out: references to training rows.
    _left_out: tuple[str, ...] = ()

    # ---- fitted state ---------------------------------------------------------------------------

    @classmethod
    def _learned_names(cls) -> tuple[str, ...]:
        """Return the learned attributes of this class and its bases."""
        kinds = reversed(cls.__mro__)
        return tuple(dict.fromkeys(name for kind in kinds for name in getattr(kind, "_learns", ())))

    def _state(self) -> dict[str, Any]:
        """Return the learned attributes that a model file keeps, as far as this fit has them, by name."""
        return {name: getattr(self, name) for name in self._learned_names() if hasattr(self, name)}

    def _restore(self, state: dict[str, Any]) -> None:
        """Set learned attributes from a :meth:`_state`."""
        self.__dict__.update(state)

    def _keep(self, state: Mapping[str, Any]) -> None:
        """Make this the state that a fit has learned, in place of that of an earlier fit."""
        for name in (*self._learns, *self._holds):
            self.__dict__.pop(name, None)
        self._restore({**state})

    def __getstate__(self) -> Any:
        return {name: v for name, v in super().__getstate__().items() if name not in self._left_out}

    # ---- display --------------------------------------------------------------------------------

    def _evidence(self) -> FitFacts:
        """Return what the fit states about itself, for its summary and pictures; nothing is computed."""
        return FitFacts()

    def _class_facts(self) -> Sequence[Fact]:
        """Return facts about the classes of a classifier."""
        return ()

    def summary(self) -> Summary:
        """Return sizes, memory, scores, evidence of the solver, warnings and parameters of the fitted model.

        Nothing is computed from rows, so that the model may come from a file. ``print`` shows it as text.
        Time O(blocks + parameters). NotFittedError before a fit.
        """
        check_has_fit(self)
        return summary_of(self, self._evidence(), self._class_facts())

    def _repr_html_inner(self) -> str:
        summary, diagram = shown_summary(self), str(super()._repr_html_inner())
        return diagram if summary is None else diagram + fragment(summary)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, Any]:
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

        summary = shown_summary(self)
        return plain(repr(self)) if summary is None else renderable(summary)

    # ---- rows, kernel, tiles --------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # Cross-validation then takes rows and columns of K alike.
        tags.input_tags.pairwise = self._precomputed
        return tags

    @property
    def _precomputed(self) -> bool:
        """Whether X is a matrix of kernel values instead of rows."""
        return isinstance(self.kernel, str) and self.kernel == PRECOMPUTED

    def _plan_fit(
        self, X: RowsLike | None, y: ArrayLike | None, make: Callable[[RowSource, int], Plan]
    ) -> Plan:
        """Return ``make(rows, number of outputs)``; y may be None, for one output. Nothing is learned."""
        with all_or_nothing(self, keep=False):
            source = self._rows(X, reset=True)
            kind = ClassTargets if is_classifier(self) else NumberTargets
            return make(source, 1 if y is None else kind(y, source.shape[0]).shape[1])

    def _rows(self, X: RowsLike | None, *, reset: bool, ensure_min_samples: int = 1) -> RowSource:
        """Check X and return a row source; a memmap is not copied, and read only where K is checked.

        With ``kernel="precomputed"`` X is K(X, X_train), square where ``reset`` is true; the source's rows
        are then row numbers.
        """
        if is_source(X):
            if self._precomputed:
                raise InputError(
                    f"X is a {type(X).__name__}; with kernel='precomputed' it is a matrix of kernel values. "
                    "Pass an array, a memmap or a CSR matrix, or the source with a kernel's name."
                )
            in_order: RowSource = matched(self, X, reset=reset)
            check_width(self, in_order.shape[1], reset=reset)
            return in_order
        memmap = isinstance(X, np.memmap) and X.ndim == 2 and X.dtype.kind in "fiu"
        checked = checked_rows(
            self,
            X,
            reset=reset,
            # Blocks of a memmap are looked at as they are read.
            lengths=not self._precomputed and not memmap,
            # A dtype of its own would be converted whole; blocks of a memmap are, as they are read.
            dtype=None if memmap else list(KEPT),
            ensure_all_finite=not memmap,
            ensure_min_samples=ensure_min_samples,
        )
        values: Any = X if memmap else checked
        if not self._precomputed:
            source = ArraySource(values)
            source.feature_names = names_known(self)  # those of X, or matched with them already
            return source
        if reset:
            check_kernel_matrix(values)
        return StoredRows(StoredMatrix(values, symmetric=reset))


def is_source(X: RowsLike | None) -> TypeGuard[RowSource]:
    """Return whether X is a row source; a frame is none, whatever its columns are called."""
    array = isinstance(X, np.ndarray) or sp.issparse(X) or frame_kind(X) is not None
    return not array and isinstance(X, RowSource)


def required_target(estimator: BaseEstimator, X: RowsLike | None, y: ArrayLike | None) -> Any:
    """Return y, or the target of a row source; raise, in scikit-learn's words, where there is neither."""
    y = getattr(X, "target", None) if y is None and is_source(X) else y
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    return y


def read_rows(model: BaseEstimator, X: RowsLike, *, reset: bool = False) -> RowSource:
    """Return the rows of X, checked against those of the fit, or with ``reset`` as those of a new fit."""
    source: RowSource = model._rows(X, reset=reset)
    return source


def read_paired_rows(model: BaseEstimator, X: RowsLike) -> RowSource:
    """Return the rows of X for work that takes their kernel values with each other, and not only with Z."""
    source = read_rows(model, X)
    if not isinstance(source, StoredRows):
        return source
    n, width = source.matrix.shape
    if n != width:
        raise InputError(
            f"X has shape {(n, width)}, but the kernel values of the rows with each other are needed. "
            f"Pass the training matrix K(X, X) of shape ({width}, {width})."
        )
    return StoredRows(source.matrix.paired())
