"""Sums of one kernel over labelled rows: held-out scores for every alpha, and the model of the best."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from gramian._budget import format_bytes
from gramian._typing import Float64Array, IntArray
from gramian.compression.predictor import fold
from gramian.compression.sums import accumulate
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import NumberTargets
from gramian.exceptions import BudgetError
from gramian.ridge.held_out import EXACT, HELD_ROWS, MEAN, UNSEEN, HeldOut, held_out
from gramian.ridge.model import KernelModel
from gramian.ridge.path import AlphaPath, alpha_path
from gramian.ridge.planning import Planned
from gramian.ridge.scoring import Scorer, Scores

#: Labelled rows whose targets are numbers.
NumberRows = LabelledRows[NumberTargets]
#: Matrices of the size of a Gram matrix that an eigendecomposition holds at a time.
EIGEN_SQUARES = 5
#: Bytes per number of rows that are whitened: in float64, their solved part and its product.
WHITENED = 32


class KernelSums:
    """Bases and sums of one kernel on some rows: all that its path over alpha needs.

    One random read of a sample and one pass over the rows. Paths come in groups of alphas, as many at a time
    as the memory budget holds factors (and held-out values, where a scorer wants them) of.
    """

    def __init__(self, planned: Planned, sample: NumberRows, *, intercept: bool) -> None:
        began = time.perf_counter()
        self.plan, self.kernel, run = planned
        self.sample, self.intercept, self.engine = sample, intercept, run.engine
        self.features = self.plan.build(sample.source, self.kernel, run, sample.weights)
        built = time.perf_counter()
        targets = sample.targets
        self.mean = targets.mean(sample.weights) if intercept else np.zeros(targets.shape[1])
        targets.shift = self.mean
        self.sums = accumulate(
            self.features,
            sample.source,
            targets,  # type: ignore[arg-type]
            sample.weights,
            chunk_rows=self.plan.chunk_rows,
            engine=self.engine,
            with_ones=intercept,
            progress=run.phases("sums", sample.n),
        )
        run.phases("penalties")
        self._seconds = {"bases": built - began, "sums": time.perf_counter() - built, "solve": 0.0}
        self._solved: list[AlphaPath] = []

    def own_scores(
        self, alphas: Float64Array, scorer: Scorer, *, mean: bool, on: NumberRows | None = None
    ) -> Scores:
        """Return scores by leave-one-out, or by generalised cross-validation (``mean``).

        ``on``: some of the rows that the sums were made of, to compare their errors alone.
        """
        sample = self.sample if on is None else on
        sample.targets.shift = self.mean
        parts, solved = [], []
        rule = MEAN if mean else EXACT
        for path in self._paths(alphas, sample if scorer.needs_predictions else None):
            errors = self._errors(path, sample, rule, keep=scorer.needs_predictions)
            parts.append(scorer.score(errors, sample.targets, sample.weights))
            solved.append(path.without_hat())
            del path  # its factors, before those of the next group
        self._solved = solved
        return Scores.joined(parts)

    def scores_of(self, unseen: NumberRows, alphas: Float64Array, scorer: Scorer) -> Scores:
        """Return scores on rows that took no part in the sums."""
        unseen.targets.shift = self.mean
        parts = []
        for path in self._paths(alphas, unseen if scorer.needs_predictions else None):
            errors = self._errors(path, unseen, UNSEEN, keep=scorer.needs_predictions)
            parts.append(scorer.score(errors, unseen.targets, unseen.weights))
            del path
        return Scores.joined(parts)

    def chosen(
        self, alphas: Float64Array, best: IntArray, *, keep: str | None = None
    ) -> tuple[KernelModel, Float64Array | None]:
        """Return the model with ``alphas[best]``, one number for all outputs or one for each.

        ``keep`` names a rule of held-out residuals (n, outputs) that are wanted with it.
        """
        began = time.perf_counter()
        numbers = np.unique(best)
        local = np.searchsorted(numbers, best)
        if self._solved:
            beta = [nodes for path in self._solved for nodes in path.beta]
            solutions = [s for path in self._solved for s in path.solutions]
            offsets = np.concatenate([path.offsets for path in self._solved])[numbers]
            beta, solutions = [beta[k] for k in numbers], [solutions[k] for k in numbers]
        else:
            paths = [path.without_hat() for path in self._paths(alphas[numbers], None)]
            beta = [nodes for path in paths for nodes in path.beta]
            solutions = [s for path in paths for s in path.solutions]
            offsets = np.concatenate([path.offsets for path in paths])
        outputs = np.arange(offsets.shape[1])
        mixed = [
            np.ascontiguousarray(np.stack(nodes)[local, :, outputs].T) for nodes in zip(*beta, strict=True)
        ]
        predictor = fold(self.features, mixed)
        self._seconds["solve"] += time.perf_counter() - began
        held = self.features.nbytes + sum(s.nbytes for s in self.sums)
        plan = self.plan.used({"sums": held, "fold": held + predictor.nbytes}, self._seconds)
        worst = max(solutions, key=lambda solution: solution.residual)
        intercept = self.mean + offsets[local, outputs]
        model = KernelModel(predictor, self.kernel, intercept, worst, plan, self.features.rank)
        residuals = None
        if keep is not None:
            residuals = np.empty(self.sample.targets.shape)
            first = 0
            for path in self._paths(alphas[numbers], self.sample):
                errors = self._errors(path, self.sample, keep, keep=True)
                assert errors.residuals is not None
                for k in range(len(path.alphas)):
                    mine = np.broadcast_to(local == first + k, outputs.shape)
                    residuals[:, mine] = errors.residuals[:, k, mine]
                first += len(path.alphas)
                del path
        return model, residuals

    def _errors(self, path: AlphaPath, sample: NumberRows, rule: str, *, keep: bool) -> HeldOut:
        return held_out(
            path,
            self.features,
            sample.source,
            sample.targets,  # type: ignore[arg-type]
            sample.weights,
            rule=rule,
            chunk_rows=self.plan.chunk_rows,
            engine=self.engine,
            keep=keep,
        )

    def _paths(self, alphas: Float64Array, kept: NumberRows | None) -> Iterator[AlphaPath]:
        """Yield the path in groups of alphas that the budget holds, with values of the ``kept`` rows."""
        budget, phases = self.plan.memory_budget, self.plan.bytes
        square = 8 * self.features.rank**2
        # An eigendecomposition is held before the pass, and its vectors during it.
        spectral = max(phases["fold"] + EIGEN_SQUARES * square, phases["sums"] + 2 * square)
        coupled = self.features.core is not None
        if coupled and spectral > budget:
            raise BudgetError(
                f"memory_budget={format_bytes(budget)} is too small for the eigendecomposition of "
                f"{self.features.rank} coupled features, which a path over alpha takes: at least "
                f"{format_bytes(1.01 * spectral)} is needed. Raise the budget, or lower rank or n_blocks.",
                spectral,
            )
        lone = len(self.sums) == 1 and spectral <= budget
        each = sum(s.rhs.nbytes for s in self.sums)
        if kept is not None:
            each += 8 * kept.n * kept.targets.shape[1]
        if coupled or lone:
            room = budget - spectral
        else:
            factor = sum(s.gram.nbytes + s.cross.nbytes for s in self.sums)
            whitened = WHITENED * self.engine.n_threads * HELD_ROWS * max(self.features.path_ranks)
            # The plan's solve holds one factor, its pass over the rows none.
            room = min(budget - phases["solve"] + factor, budget - phases["sums"] - whitened)
            each += factor
        size = max(1, room // max(each, 1))
        mass = self.sample.mass if self.intercept else None
        for start in range(0, len(alphas), size):
            began = time.perf_counter()
            path = alpha_path(
                self.features,
                self.sums,
                alphas[start : start + size],
                mass=mass,
                engine=self.engine,
                spectral=lone,
            )
            self._seconds["solve"] += time.perf_counter() - began
            yield path
            del path
