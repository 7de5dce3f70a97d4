"""One fit of DC-Pred++ as a function of values, and the trained model with its input."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from gramian._typing import Array, FloatArray
from gramian.data.source import RowSource
from gramian.engine import Engine
from gramian.estimator.answers import PREDICT_ROWS, finite_blocks, in_blocks, quietly
from gramian.estimator.base import KernelEstimator
from gramian.estimator.input import Input, scaled_input
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.summaries import Evidence
from gramian.exceptions import AccuracyWarning, user_level
from gramian.fast.dcpred.leaf import LeafReport
from gramian.fast.dcpred.parameters import DCPredParameters
from gramian.fast.dcpred.pseudo_landmarks import check_pseudo
from gramian.fast.dcpred.training import DCPred, TargetsOf, for_rows, train_dcpred
from gramian.kernels import Kernel

#: Attributes of an estimator that hold its :class:`DCPredModel`, and what follows from it.
LEARNED = ("model_", "kernel_", "scaler_", "leaves_", "n_leaves_", "exact_from_sample_", "nbytes_")


@dataclass(frozen=True)
class DCPredModel:
    """A trained tree of local models, and the input that makes its rows."""

    tree: DCPred
    kernel: Kernel
    input: Input = field(default_factory=Input)

    @classmethod
    def of(cls, estimator: KernelEstimator) -> Self:
        """Return the model that a fitted estimator holds."""
        return cls(estimator.model_, estimator.kernel_, Input.of(estimator))

    @property
    def leaves(self) -> tuple[LeafReport, ...]:
        """What is stated of each leaf."""
        return tuple(leaf.report for leaf in self.tree.leaves)

    def state(self) -> dict[str, Any]:
        """Return the learned attributes of an estimator with this model, by name."""
        leaves = self.leaves
        return {
            "model_": self.tree,
            "kernel_": self.kernel,
            "leaves_": leaves,
            "n_leaves_": len(leaves),
            "exact_from_sample_": np.array([leaf.exact_sampled for leaf in leaves]),
            "nbytes_": self.tree.nbytes,
            **self.input.state(),
        }

    def values(
        self,
        source: RowSource,
        engine: Engine,
        answer: Callable[[FloatArray], Array] | None = None,
        *,
        dtype: DTypeLike = np.float64,
    ) -> Array:
        """Return the values (n, outputs) of rows from a user; raise for the first that overflows.

        ``answer`` turns the values of a block of rows into what is returned of them, (rows,) of ``dtype``.
        """
        rows = self.input.over(source)
        blocks = quietly(self.tree.blocks(rows, engine=engine, chunk_rows=PREDICT_ROWS))
        shape = source.shape[:1] if answer else (source.shape[0], self.tree.n_outputs)
        return in_blocks(finite_blocks(blocks, source.take), shape, answer, dtype=dtype)

    def missed(self) -> str:
        """Return how many local models missed their tolerance, as a sentence; empty where none did."""
        missed = sum(not leaf.converged for leaf in self.leaves)
        return f"{missed} of {len(self.leaves)} local models missed their tolerance" if missed else ""

    def facts(self, **penalty: float) -> Evidence:
        """Return what a model states; ``penalty`` as for Evidence."""
        leaves, missed = self.leaves, self.missed()
        return Evidence(
            n_rows=sum(leaf.n_rows for leaf in leaves),
            kernel=self.kernel,
            penalty=penalty,
            blocks=[("rows", [leaf.n_rows for leaf in leaves]), ("rank", [leaf.rank for leaf in leaves])],
            nbytes=self.tree.nbytes,
            points=[leaf.landmarks for leaf in self.tree.leaves if leaf.landmarks is not None],
            warnings=(f"{missed}. Lower C.",) if missed else (),
        )


def fit_dcpred(
    rows: LabelledRows[Any], targets: TargetsOf, parameters: DCPredParameters, *, wide: bool = False
) -> DCPredModel:
    """Train a tree of local models.

    targets : function from row numbers to target values (rows, outputs); wide : whether float32 does not hold
    them.
    """
    scaled = scaled_input(parameters.kernel, parameters.standardize, rows.source, rows.weights)
    source = scaled.over(rows.source)
    kernel = parameters.kernel.of(source, rows.weights)
    check_pseudo(parameters.pseudo, kernel)
    asked = for_rows(parameters, source, len(rows.counted), wide=wide)
    tree = train_dcpred(source, rows, targets, kernel, asked)
    model = DCPredModel(tree, kernel, scaled)
    if missed := model.missed():
        worst = max(leaf.gradient for leaf in model.leaves)
        warnings.warn(
            f"{missed}: the gradient is down to {worst:.2g} of its start, where 1e-4 was the target. Scale "
            "the features, or lower C.",
            AccuracyWarning,
            stacklevel=user_level(),
        )
    return model
