"""Search over kernels: successive halving over gammas, then refinement by the leave-one-out gradient."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from gramian._checks import positive_numbers
from gramian._typing import Float64Array, IntArray
from gramian.approximations.approximation import Approximation
from gramian.approximations.methods import METHODS
from gramian.approximations.multiresolution import MultiResolutionBuilder
from gramian.approximations.setup import FitSetup
from gramian.compression.plan import Plan
from gramian.exact.loo import SQUARES, per_feature, refine_kernel
from gramian.exceptions import InputError
from gramian.kernels import Kernel
from gramian.kernels.columns import dense
from gramian.ridge.held_out import EXACT, MEAN
from gramian.ridge.kernel_sums import KernelSums, NumberRows
from gramian.ridge.model import KernelModel
from gramian.ridge.planning import Planned, plan_sums
from gramian.ridge.scoring import Scorer, Scores
from gramian.search import Trials, search

#: Parts of the rows that gammas are compared on before all rows are, and the fewest rows of a part.
SHARES, LEAST_ROWS = (9, 3), 1_000
#: Up to so many gammas are all tried on all rows: the best one's neighbours are in any case.
FEW = 3
#: Rows of the dense refinement, and its array beside those of the objective.
REFINE_ROWS, REFINE_SQUARES = 2_000, SQUARES + 2
#: Sizes of an approximation that shrink with the rows.
_SIZES = ("rank", "root_rank", "n_blocks")

#: A model, and its held-out residuals (n, outputs) where they are kept.
ChosenModel = tuple[KernelModel, Float64Array | None]


@dataclass(frozen=True)
class Objective:
    """Scores of a kernel for each alpha, by leave-one-out errors or folds, and the model of the best."""

    scorer: Scorer
    cv: Any  #: None, "gcv", a number of folds, or a list of (training rows, held-out rows)
    keep_residuals: bool

    def scores(
        self, setup: FitSetup, sample: NumberRows, alphas: Float64Array, share: float = 1.0
    ) -> tuple[Scores, Callable[[], ChosenModel]]:
        """Return the scores on these rows, a ``share`` of all, and what makes the model of the best alpha."""

        def sums(rows: NumberRows, fold: str = "") -> KernelSums:
            planned = plan_share(setup.part(fold) if fold else setup, rows, alphas, share)
            return KernelSums(planned, rows, intercept=setup.intercept)

        splits = self._splits(sample.counted)
        if splits is None:
            candidate = sums(sample)
            mean = self.cv == "gcv"
            scores = candidate.own_scores(alphas, self.scorer, mean=mean)
            keep = None if not self.keep_residuals else MEAN if mean else EXACT
            return scores, lambda: candidate.chosen(alphas, scores.best, keep=keep)
        parts = []
        for k, (train, test) in enumerate(splits):
            known, unseen = sample.taken(train), sample.taken(test)
            if not (known.mass > 0 and unseen.mass > 0):
                raise InputError(
                    f"fold {k} of cv has no row with a weight to {'test' if known.mass > 0 else 'train'} on. "
                    "Shuffle the rows, use fewer folds, or cv=None."
                )
            # Nothing keeps the bases and sums of one fold while those of the next are made.
            fold = f"fold {k + 1} of {len(splits)}"
            parts.append(sums(known, fold).scores_of(unseen, alphas, self.scorer))
        scores = Scores.of_folds(parts)
        return scores, lambda: sums(sample).chosen(alphas, scores.best)

    @property
    def splits_any_rows(self) -> bool:
        """Whether parts of the rows can be judged too: not with the folds of a splitter."""
        return not isinstance(self.cv, list)

    def _splits(self, counted: IntArray) -> list[tuple[IntArray, IntArray]] | None:
        if self.cv is None or isinstance(self.cv, str):
            return None
        if isinstance(self.cv, list):
            return self.cv
        n = len(counted)
        if n < self.cv:
            raise InputError(f"cv={self.cv} folds need as many rows, but X has {n}. Use cv=None.")
        return [(counted[train], counted[test]) for train, test in KFold(self.cv).split(counted)]


@dataclass
class BestKernel:
    """The best kernel so far, on all rows."""

    score: float
    scores: Scores
    alphas: Float64Array
    number: int
    model: KernelModel
    residuals: Float64Array | None  #: held out, where they are kept


def plan_share(setup: FitSetup, rows: NumberRows, alphas: Float64Array, share: float) -> Planned:
    """Return the plan of a fit to some rows, with sizes for this share of all rows."""
    least = float(positive_numbers("alphas", alphas).min())
    own = replace(setup, approximation=scaled(setup.approximation, share), alpha=least)
    plan, kernel, run = plan_sums(own, rows.source, rows.n_outputs)
    return scaled_plan(plan, share) if setup.automatic else plan, kernel, run


def search_gammas(
    objective: Objective,
    setups: Sequence[FitSetup],
    gammas: Float64Array,
    sample: NumberRows,
    alphas: Float64Array,
    rng: np.random.Generator,
) -> tuple[BestKernel, list[Scores | None], IntArray]:
    """Compare gammas on a ninth and a third of the rows, the better half going on, then on all rows.

    ``setups`` are those of a fit with each gamma. Gammas are ranked by the score
    of their best alpha. Fewer rows call for wider kernels, so that the best on a part need not be the best on
    all: from there the search climbs, on all rows, until both neighbours of the best have been tried. Parts
    of under 1,000 rows are left out, and without a part every gamma is tried on all rows.

    Returns the best kernel, and for each gamma its scores on the most rows that it was tried on, and their
    number.
    """
    table: list[Scores | None] = [None] * len(gammas)
    n_rows = np.zeros(len(gammas), np.intp)
    order = rng.permutation(sample.counted)
    parts = [len(order) // part for part in SHARES if len(order) // part >= LEAST_ROWS]
    if len(gammas) <= FEW or not objective.splits_any_rows:
        parts = []
    best: BestKernel | None = None
    tops: dict[int, float] = {}  # best scores by the number of rows, which compare only among themselves

    def error_on(rows: NumberRows, k: int) -> tuple[float, None]:
        nonlocal best
        whole = rows is sample
        share = 1.0 if whole else rows.n / len(order)
        name = "kernel" if len(gammas) == 1 else f"gamma {gammas[k]:.3g}"
        top = f", best score {tops[rows.n]:.4g}" if rows.n in tops else ""
        setup = setups[k].part(f"{name} on {rows.n:,} rows{top}")
        scores, make = objective.scores(setup, rows, alphas, share)
        table[k], n_rows[k] = scores, rows.n
        score = _rank(scores)
        tops[rows.n] = max(score, tops.get(rows.n, -math.inf))
        if whole and (best is None or score > best.score):
            # Of the best alone, and now: ``make`` holds bases and sums, and the next kernel has its own.
            best = BestKernel(score, scores, alphas, k, *make())
        return -score, None

    alive = list(range(len(gammas)))
    for size in parts:
        trials = search(sample.taken(np.sort(order[:size])), [alive], error_on)
        alive = [trial.candidate for trial in trials.ranked[: math.ceil(len(alive) / 2)]]
    line = np.argsort(gammas, kind="stable").tolist()

    def climb(trials: Trials[int, None]) -> Iterator[list[int]]:
        yield alive[:1] if parts else alive
        while trials.best is not None:
            at = line.index(trials.best.candidate)
            untried = [k for k in line[max(at - 1, 0) : at + 2] if n_rows[k] < sample.n]
            if not untried:
                return
            yield untried[:1]

    search(sample, climb, error_on)
    assert best is not None
    return best, table, n_rows


def _rank(scores: Scores) -> float:
    return float(scores.top.mean())


@dataclass(frozen=True)
class Refinement:
    """What refining a kernel by the leave-one-out gradient gave.

    ``before`` and ``after`` are mean squared leave-one-out errors of ``n_rows`` rows, outputs added;
    ``scores`` those of the refined kernel on all rows for each of ``alphas``. ``kept``: they were better.
    """

    kernel: Kernel
    before: float
    after: float
    n_rows: int
    evaluations: int
    alphas: Float64Array
    scores: Float64Array
    kept: bool


def refine(
    objective: Objective,
    setup: FitSetup,
    best: BestKernel,
    sample: NumberRows,
    rng: np.random.Generator,
    *,
    each_feature: bool,
) -> tuple[BestKernel, Refinement]:
    """Minimise the leave-one-out error of at most 2,000 rows from the best kernel, and keep what is better.

    Its score is compared for the alphas of before, and the one that was found.
    """
    most = math.isqrt(setup.run.memory_bytes // (8 * REFINE_SQUARES))
    drawn = np.sort(rng.permutation(sample.counted)[: max(2, min(REFINE_ROWS, most))])
    some = sample.taken(drawn)
    rows = some.source.rows(slice(0, some.n))
    X = dense(rows).astype(np.float64)
    numbers = best.scores.best
    start = float(np.exp(np.mean(np.log(best.alphas[numbers]))))
    kernel = per_feature(best.model.kernel, X.shape[1]) if each_feature else best.model.kernel
    Y = some.targets[slice(0, some.n)]
    setup.run.phases(f"refinement on {some.n:,} rows")
    tuned = refine_kernel(kernel, X, Y, start, weights=some.weights, intercept=setup.intercept)
    alphas = np.unique(np.append(best.alphas, tuned.alpha))
    setup = setup.part("refined kernel").with_kernel(tuned.kernel)
    scores, make = objective.scores(setup, sample, alphas)
    score = _rank(scores)
    kept = score > best.score
    report = Refinement(
        tuned.kernel, tuned.before, tuned.after, tuned.n_rows, tuned.evaluations, alphas, scores.values, kept
    )
    return (BestKernel(score, scores, alphas, best.number, *make()) if kept else best), report


def scaled_plan(plan: Plan, share: float) -> Plan:
    """Return a plan of "auto" with ranks times √share, whose bytes bound what it takes.

    A root of every row stays; blocks have the rows that they have in a fit to all.
    """
    builder = plan.builder
    if share == 1.0 or not isinstance(builder, MultiResolutionBuilder) or plan.reason.startswith("few rows"):
        return plan
    root, rank = (max(min(r, 4), round(r * math.sqrt(share))) for r in (builder.root_rank, builder.rank))
    return replace(plan, builder=replace(builder, root_rank=root, rank=rank))


def scaled(approximation: object, share: float) -> Any:
    """Return an approximation with the sizes for a share of the rows: ranks and blocks times √share."""
    if share == 1.0 or (isinstance(approximation, str) and approximation not in METHODS):
        return approximation
    if isinstance(approximation, str):
        approximation = METHODS[approximation]()
    if not isinstance(approximation, Approximation):
        return approximation
    sizes = approximation.get_params(deep=False)
    for name in _SIZES:
        value = sizes.get(name)
        if isinstance(value, int | np.integer) and not isinstance(value, bool):
            sizes[name] = max(min(int(value), 4), round(value * math.sqrt(share)))
    return type(approximation)(**sizes)
