"""What every approximation shares as a transformer: the compressed matrix, and features for any pipeline."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gramian._budget import parse_bytes
from gramian._random import as_generator
from gramian._typing import Array
from gramian.approximation.builder import Builder
from gramian.approximation.features import FeatureMap
from gramian.approximation.plan import Plan, make_plan
from gramian.approximation.quality import ErrorEstimate, relative_error
from gramian.approximation.storage import dense_features, stored_operator
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimators.base import KernelEstimator, positive_number, whole_number
from gramian.exceptions import InputError, did_you_mean
from gramian.operators.block import BlockOperator


class Approximation(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Base of the approximations: ``fit`` builds the bases, the core and the operator."""

    memory_budget: Any
    random_state: Any

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.tile_dtype != "float64":
            # Features come in the tiles' type: float32 where asked for, and from 3,000 rows on.
            tags.transformer_tags.preserves_dtype = []
        return tags

    @abstractmethod
    def _builder(self) -> Builder:
        """Return the builder with this estimator's sizes, all checked."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Compress the Gram matrix of the rows of X. ``y`` is ignored.

        Time and memory as :meth:`plan` says; the operator's bases take n·rank numbers beside them.
        """
        with self._all_or_nothing():
            source = self._rows(X, reset=True)
            rng = as_generator(self.random_state)
            plan, kernel, engine = self._planned(source)
            began = time.perf_counter()
            self.features_: FeatureMap = plan.builder.build(
                source,
                kernel,
                dtype=np.dtype(plan.dtype),
                rng=rng,
                engine=engine,
                sample_size=plan.sample_rows,
                chunk_rows=plan.chunk_rows,
            )
            self.kernel_ = kernel
            built = time.perf_counter()
            self.operator_: BlockOperator = stored_operator(
                self.features_, source, chunk_rows=plan.chunk_rows, engine=engine
            )
            stored = time.perf_counter()
            sizes = {"bases": self.features_.nbytes, "operator": self.operator_.nbytes}
            self.plan_ = plan.used(sizes, {"bases": built - began, "operator": stored - built})
            self.rank_ = self.features_.rank
            self._n_features_out = self.rank_
        return self

    @property
    def nbytes_(self) -> int:
        """Bytes of the compressed matrix: bases of the training rows and core."""
        check_is_fitted(self, "operator_")
        return self.operator_.nbytes

    def plan(self, X: Any) -> Plan:
        """Predict rank, blocks, bytes and seconds per phase of a fit to X, without fitting."""
        with self._all_or_nothing(keep=False):
            return self._planned(self._rows(X, reset=True))[0]

    def _planned(self, source: RowSource) -> tuple[Plan, Any, Any]:
        builder, engine = self._builder(), self._engine()
        kernel = self._resolved_kernel(source.shape[1])
        work = self._workload(source, 1)
        plan = make_plan(
            builder,
            work,
            dtype=self._tiles(source, kernel, None),
            n_threads=engine.n_threads,
            memory_budget=parse_bytes(self.memory_budget),
            training=False,
        )
        return plan, kernel, Engine(plan.n_threads)

    def transform(self, X: Any) -> Any:
        """Return features F of shape (n, rank_) with F Fᵀ ≈ k(X, X). Time O(n m (d + r))."""
        check_is_fitted(self, "features_")
        source = self._rows(X, reset=False)
        return self._features(source)

    def _features(self, source: RowSource) -> Any:
        return dense_features(self.features_, source, chunk_rows=self.plan_.chunk_rows, engine=self._engine())

    def relative_error(self, X: Any, *, n_rows: int = 2000, random_state: Any = None) -> ErrorEstimate:
        """Estimate ‖K − K̃‖_F/‖K‖_F over the rows of X from ``n_rows`` of them, drawn anew.

        Returns a float with ``standard_error``. Time O(n_rows · n · (d + r)); K is never stored.
        """
        check_is_fitted(self, "features_")
        source = self._rows(X, reset=False)
        return relative_error(
            self.features_,
            source,
            n_rows=whole_number("n_rows", n_rows, 1),
            rng=as_generator(random_state),
            engine=self._engine(),
            chunk_rows=self.plan_.chunk_rows,
        )

    def block_errors(self, X: Any, *, n_rows: int = 500) -> Array:
        """Return ‖K_ss − K̃_ss‖_F/‖K_ss‖_F of each diagonal block, shape (blocks,), for the training rows X.

        Blocks of more than ``n_rows`` rows are judged on that many. Time O(blocks · n_rows² · (d + r)).
        """
        check_is_fitted(self, "operator_")
        source = self._rows(X, reset=False)
        if source.shape[0] != self.operator_.shape[0]:
            raise InputError(
                f"X has {source.shape[0]} rows, but {type(self).__name__} was fitted with "
                f"{self.operator_.shape[0]}. Pass the training rows; for others use relative_error."
            )

        def exact(rows: Array, cols: Array) -> Array:
            return self.kernel_(source.take(rows), source.take(cols), dtype=np.float64)

        return self.operator_.block_errors(exact, n_rows=whole_number("n_rows", n_rows, 1))


def one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise, with the nearest choice, for a value that is not among the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(
            f"{name}={value!r} is unknown. Choose one of {', '.join(choices)}." + did_you_mean(value, choices)
        )


def given_or_one_of(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raise for a name that is not among the choices, or a value that cannot be points."""
    if isinstance(value, str):
        one_of(name, value, choices)
    elif not isinstance(value, np.ndarray | list | tuple):
        raise InputError(
            f"{name}={value!r} has type {type(value).__name__}. Choose one of {', '.join(choices)}, or give "
            "an array of points."
        )


def at_least_one(name: str, value: Any) -> float:
    """Return a number of at least 1."""
    number = positive_number(name, value)
    if number < 1.0:
        raise InputError(f"{name}={value!r} must be at least 1: a basis needs a landmark per rank.")
    return number


def not_negative(name: str, value: Any) -> float:
    """Return a finite number of at least 0."""
    return 0.0 if value == 0 and not isinstance(value, bool) else positive_number(name, value)
