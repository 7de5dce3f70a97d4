"""``partial_fit`` of ridge models, for regression and classification."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from gramian._typing import Array
from gramian.estimator.base import checked_weights, own_target
from gramian.estimator.targets import ClassTargets, NumberTargets
from gramian.exceptions import InputError, quoted
from gramian.ridge.partial import PartialRidge


def _streams(model: PartialRidge) -> bool:
    """Return whether a model's parameters allow a stream."""
    return model._no_stream() is None


class PartialRegressor(PartialRidge):
    """A ridge model of a stream of numbers."""

    @available_if(_streams)
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, grow_landmarks: bool = False
    ) -> Self:
        """Add rows X (n, d) with targets y (n,) or (n, outputs) to those of earlier calls.

        The first rows wait until there are 2,000 of them (or a sixteenth of the memory budget);
        ``n_rows_waiting_`` says how many do. Scale, metric, sizes and landmarks are then chosen from them,
        with the precision for a million rows. A call with 2,000 rows or more chooses from its own.
        Predictions before that are those of a model of the rows so far, and everything is chosen again when
        more come. Nothing waits where the landmarks are given: ``approximation=FrozenEstimator(a)``.

        Later calls add their rows' sums. Over the same landmarks the model is that of one fit to all rows;
        the intercept too. A call that fails, or is broken off, adds nothing. After ``fit``, which keeps no
        sums, a stream starts anew, with a warning. alpha is that of the latest call; the coefficients are
        found when they are asked for. ``checkpoint`` is of ``fit`` alone: pickle the model between two calls.

        Parameters
        ----------
        sample_weight : array of shape (n,), optional
        grow_landmarks : bool
            Adds blocks where rows lie of whose k(x, x) the map represents too little: more than half of what
            95 % of the first rows had left over is left of them. Once 2·rank such rows have come (they are
            kept for it, in a sixteenth of the memory budget at most), their clusters become blocks with
            landmarks among them. Rows go to the nearest centre from then on; rows that came before keep the
            features that they were summed with, so that a new block knows nothing of them. For a root with
            blocks (``MultiResolution``, ``n_levels=2``) only. Growth ends, with a warning, at the memory
            budget. About twice the time for a row.

        Returns
        -------
        self, with ``n_rows_seen_``, ``n_rows_waiting_`` and ``n_blocks_`` beside the attributes of a fit

        Time O(n (m d + m r + R_path²)) and, when the coefficients are asked for, a solve; memory as ``plan_``
        says, independent of n. Raises ``InputError`` for unusable rows, other outputs, or a kernel or
        ``fit_intercept`` that was changed since the first call. There is no ``partial_fit`` with
        ``approximation="exact"`` and ``kernel="precomputed"``, which need all rows at once.
        """
        with self._all_or_nothing():
            y = own_target(X, y)
            X, y, sample_weight = self._opened(X, y, sample_weight)
            source = self._next_rows(X, y)
            targets = NumberTargets(y, source.shape[0])
            if not self._begun:
                self._flat = targets.flat
            weights = checked_weights(sample_weight, source.shape[0])
            return self._take(source, targets, weights, grow_landmarks)

    def _targets_of(self, y: Array) -> NumberTargets:
        return NumberTargets(y, len(y))

    def _kept_targets(self, targets: Any) -> Array:
        return np.array(targets[slice(0, targets.shape[0])])


class PartialClassifier(PartialRidge):
    """A ridge model of a stream of classes."""

    class_weight: Any

    def _no_stream(self) -> str | None:
        if isinstance(self.class_weight, str):
            return (
                f": class_weight={self.class_weight!r} needs the labels of all rows. Give a dict from class "
                "to weight, or sample_weight."
            )
        return super()._no_stream()

    @available_if(_streams)
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        classes: Any = None,
        grow_landmarks: bool = False,
    ) -> Self:
        """Add rows X (n, d) with labels y (n,) to those of earlier calls, as :class:`KernelRidge` does.

        Parameters
        ----------
        classes : all labels that will come
            Required in the first call, as in scikit-learn; later it may be left out.
        sample_weight, grow_landmarks : as of :meth:`KernelRidge.partial_fit`

        Raises ``InputError`` also for a label that was not named. There is no ``partial_fit`` with
        ``class_weight="balanced"``, which needs all labels at once.
        """
        with self._all_or_nothing():
            y = own_target(X, y)
            X, y, sample_weight = self._opened(X, y, sample_weight)
            source = self._next_rows(X, y)
            self.classes_ = self._named(classes)
            targets = ClassTargets(y, source.shape[0], self.classes_)
            weights = targets.weights(self.class_weight, sample_weight)
            return self._take(source, targets, weights, grow_landmarks)

    def _named(self, classes: Any) -> Array:
        if classes is None:
            if hasattr(self, "classes_"):
                return self.classes_
            raise InputError(
                "classes must be passed on the first call to partial_fit: the labels of all rows to come, "
                "such as classes=np.unique(y)."
            )
        given = np.asarray(classes)
        if given.ndim != 1 or not given.size:
            raise InputError(
                f"classes has shape {given.shape}; expected one label a class, shape (classes,)."
            )
        check_classification_targets(np.repeat(given, 3))  # of each once it would warn
        named = np.unique(given)
        if self._begun and not np.array_equal(named, self.classes_):
            raise InputError(
                f"classes={quoted(named.tolist())} are not those of the first call to partial_fit "
                f"({quoted(self.classes_.tolist())}). Leave classes out, or start anew with a clone."
            )
        return named

    def _check_mergeable(self, other: Any) -> None:
        if not np.array_equal(self.classes_, other.classes_):
            raise InputError(
                f"this model has the classes {quoted(self.classes_.tolist())}, the other "
                f"{quoted(other.classes_.tolist())}. Name the same classes in the first call of both."
            )

    def _targets_of(self, y: Array) -> ClassTargets:
        return ClassTargets(y, len(y), self.classes_)

    def _kept_targets(self, targets: Any) -> Array:
        return np.asarray(self.classes_[targets.codes(slice(0, targets.shape[0]))])
