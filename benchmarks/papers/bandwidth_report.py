"""Report on kernel bandwidths: which one suits each class, and what the compressed kernel costs there.

Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation", section 2
(bandwidth and class size) and section 3.2.2, part 3 (the blocks and ranks that a tolerance needs).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.model_selection import StratifiedKFold

from gramian._checks import flag, positive_number, positive_numbers, whole_number
from gramian._random import as_generator, seed_for_sklearn
from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray, RandomState, Rows, RowsLike
from gramian.approximations.block_basis_search import BlockSearch
from gramian.data.source import RowSource, sample_rows
from gramian.engine import Engine
from gramian.estimator.base import required_target
from gramian.estimator.input import scaled_input
from gramian.estimator.labelled import labelled_classes
from gramian.estimator.parameters import KernelParameters
from gramian.exceptions import InputError, quoted
from gramian.kernels import Gaussian
from gramian.summary import Grid, Shown, Summary
from gramian.svm.classifier import KernelSVC

#: Bandwidths that are tried where none are given, as multiples of the median distance between rows. Chosen
#: by hand: at the least of them most rows see few neighbours, at the largest all see each other.
MULTIPLES = 2.0 ** np.arange(-5, 2)
#: Rows between which that distance is measured, and labels that are read at a time. Chosen by hand.
DISTANCE_ROWS, LABELS = 1000, 65_536


@dataclass(frozen=True)
class ClassBandwidth:
    """The bandwidth with the highest F1 of one class; of equal ones the largest."""

    label: Any
    n_rows: int  #: in all of the data
    radius: float  #: median distance of the class's rows to their mean
    bandwidth: float
    f1: float  #: at this bandwidth
    standard_error: float  #: of ``f1``, from its spread over the folds
    f1_overall: float  #: at the bandwidth with the highest accuracy


@dataclass(frozen=True)
class BandwidthCost:
    """Accuracy at a bandwidth, and the size of a compressed kernel there, predicted from spectra."""

    bandwidth: float
    accuracy: float
    rank: int  #: of one low-rank factor that keeps the tolerance
    n_blocks: int  #: of the block basis factorization with the fewest numbers
    numbers: int  #: that it stores; at most the n (n + 1)/2 of K itself
    upper_bound: bool  #: whether a spectrum was not followed to the tolerance, so that less may be needed


@dataclass(frozen=True, repr=False, eq=False)
class BandwidthReport(Shown):
    """Bandwidths by class, and the cost at each of them; ``print`` shows both as tables."""

    classes: tuple[ClassBandwidth, ...]
    costs: tuple[BandwidthCost, ...]  #: by ascending bandwidth
    f1: Float64Array  #: (bandwidths, classes)
    n_rows: int
    n_sampled: int  #: rows that the F1 scores were measured on
    folds: int
    tol: float

    @property
    def bandwidths(self) -> Float64Array:
        """All bandwidths, ascending."""
        return np.asarray([cost.bandwidth for cost in self.costs])

    @property
    def best(self) -> BandwidthCost:
        """Return the bandwidth with the highest accuracy over all classes; of equal ones the largest."""
        return self.costs[_last_best(np.asarray([cost.accuracy for cost in self.costs]))]

    def cost(self, bandwidth: float) -> BandwidthCost:
        """Return the cost at one of the bandwidths."""
        found = next((cost for cost in self.costs if cost.bandwidth == bandwidth), None)
        if found is None:
            raise InputError(
                f"bandwidth={quoted(bandwidth)} was not tried. Take one of "
                f"{', '.join(f'{h:.4g}' for h in self.bandwidths)}, or report on a grid that holds it."
            )
        return found

    def summary(self) -> Summary:
        """Return the tables by class and by bandwidth."""
        best = self.best
        facts = (
            ("kernel", "exp(−‖x − z‖²/h²), gamma = 1/h²"),
            ("rows", f"{self.n_rows:,}, F1 from {self.n_sampled:,} of them in {self.folds} folds"),
            ("best for all", f"h = {best.bandwidth:.4g}, accuracy {best.accuracy:.3f}"),
        )
        by_class = Grid(
            "By class",
            ("class", "rows", "radius", "best h", "F1", f"F1 at h = {best.bandwidth:.4g}", "numbers a row"),
            tuple(self._class_row(each) for each in self.classes),
        )
        note = "≤: an upper bound; the spectrum was not followed further."
        by_bandwidth = Grid(
            f"By bandwidth, for a tolerance of {self.tol:g}",
            ("h", "gamma", "accuracy", "rank", "blocks", "numbers a row"),
            tuple(self._cost_row(each) for each in self.costs),
            note if any(cost.upper_bound for cost in self.costs) else "",
        )
        return Summary("Bandwidths", facts, (by_class, by_bandwidth))

    def __repr__(self) -> str:
        return str(self.summary())

    def _class_row(self, each: ClassBandwidth) -> tuple[str, ...]:
        return (
            str(each.label),
            f"{each.n_rows:,}",
            f"{each.radius:.3g}",
            f"{each.bandwidth:.4g}",
            f"{each.f1:.3f} ± {each.standard_error:.3f}",
            f"{each.f1_overall:.3f}",
            self._numbers(self.cost(each.bandwidth)),
        )

    def _cost_row(self, each: BandwidthCost) -> tuple[str, ...]:
        return (
            f"{each.bandwidth:.4g}",
            f"{each.bandwidth**-2:.4g}",
            f"{each.accuracy:.3f}",
            f"{'≤ ' * each.upper_bound}{each.rank:,}",
            f"{each.n_blocks:,}",
            self._numbers(each),
        )

    def _numbers(self, cost: BandwidthCost) -> str:
        return f"{'≤ ' * cost.upper_bound}{cost.numbers / self.n_rows:,.1f}"


def bandwidth_report(
    X: RowsLike,
    y: ArrayLike | None = None,
    *,
    bandwidths: ArrayLike | None = None,
    C: float = 10.0,
    standardize: bool = True,
    folds: int = 5,
    tol: float = 0.1,
    n_rows: int = 2000,
    random_state: RandomState = None,
    n_jobs: int | None = None,
) -> BandwidthReport:
    r"""Return which bandwidth h of exp(−‖x − z‖²/h²) suits each class, and what the kernel costs there.

    A bandwidth that is best for all rows follows the large classes; a class that is small, or lies close
    together, is often recognised better at a smaller one, where the kernel matrix has a higher rank. Take
    the bandwidth as ``gamma=1/h**2``.

    Parameters
    ----------
    X, y : rows (n, d) and class labels (n,), as for :class:`KernelSVC`: arrays, sparse matrices, frames, row
        sources
    bandwidths : sequence of positive numbers
        None takes seven, from 1/32 of the median distance between rows to twice it, in powers of two.
    C : of the support vector machine
    standardize : whether columns are scaled to mean 0 and deviation 1 first; h is in the units after it
    folds : of the stratified cross-validation that gives F1 = 2·precision·recall/(precision + recall)
    tol : tolerance ε of the block basis factorization's rule for blocks and ranks
    n_rows : rows for the F1 scores; of more, about so many are drawn. A class has its share of them, but at
        least n_rows/(2·classes) or all its rows; weights make up for it, in the fits and in the scores.
    random_state, n_jobs : as for :class:`KernelSVC`

    Returns
    -------
    BandwidthReport
        ``classes``: for each class its best bandwidth, F1 with standard error, and F1 at the best bandwidth
        for all. ``costs``: for each bandwidth the accuracy, rank, blocks and stored numbers. ``f1``: all
        scores. The best of several noisy scores is too good by about a standard error.

    Costs are predicted by :class:`gramian.approximations.block_basis_search.BlockSearch` from the spectra of
    ``n_rows`` rows drawn uniformly, for all n rows. Fewer rows call for wider kernels: where n is much larger
    than ``n_rows``, expect best bandwidths somewhat below those of the report.

    Time: bandwidths · folds fits of a :class:`KernelSVC` on n_rows rows, of seconds each (with ten classes a
    few minutes in all for the defaults), a second or so a bandwidth for its cost, and two passes over X.
    Memory O(n) for the labels and the budget of these fits: it does not grow with n². Raises ``InputError``
    for unusable input and for a class with fewer rows than folds.

    Source: Wang, Li, Mahoney and Darve, "Block Basis Factorization for Scalable Kernel Evaluation", section
    2.2.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(400, 2)), 0.05 * rng.normal(size=(40, 2)) + 0.5])
    >>> y = np.repeat(["wide", "tight"], [400, 40])
    >>> report = bandwidth_report(X, y, bandwidths=[0.1, 0.3, 1.0, 3.0], random_state=0, n_jobs=1)
    >>> {each.label: each.bandwidth for each in report.classes}["tight"] < 1.0
    True
    >>> [cost.rank for cost in report.costs] == sorted((cost.rank for cost in report.costs), reverse=True)
    True
    """
    model = KernelSVC(C=positive_number("C", C), n_jobs=n_jobs)
    folds = whole_number("folds", folds, 2)
    tol = positive_number("tol", tol)
    given = None if bandwidths is None else np.unique(positive_numbers("bandwidths", bandwidths))
    engine, rng = Engine(n_jobs), as_generator(random_state)
    y = required_target(model, X, y)
    source = model._rows(X, reset=True)
    targets = labelled_classes(source, y).targets
    codes = np.concatenate([targets.codes(where) for where in row_slices(source.shape[0], LABELS)])
    numbers, weights = _draw_rows(codes, targets.classes, folds, whole_number("n_rows", n_rows, 2), rng)
    source = scaled_input(KernelParameters(), flag("standardize", standardize), source).over(source)
    rows = source.take(numbers)
    grid = np.asarray(_median_distance(source, rng) * MULTIPLES if given is None else given, np.float64)
    problem = _BandwidthProblem(rows, codes[numbers], weights, folds, model, seed_for_sklearn(rng))
    scores = [problem.scores(h) for h in grid]
    sample, _ = sample_rows(source, len(numbers), rng)
    costs = tuple(
        _cost(BlockSearch(sample, len(codes), Gaussian(h / np.sqrt(2.0)), rng, engine), h, accuracy, tol)
        for h, (accuracy, _, _) in zip(grid.tolist(), scores, strict=True)
    )
    f1 = np.asarray([by_class for _, by_class, _ in scores])
    overall = _last_best(np.asarray([accuracy for accuracy, _, _ in scores]))
    counts, classes = np.bincount(codes), []
    for k, label in enumerate(targets.classes.tolist()):
        at = _last_best(f1[:, k])
        radius = _radius(rows[np.flatnonzero(problem.codes == k)])
        own = float(grid[at]), float(f1[at, k]), float(scores[at][2][k]), float(f1[overall, k])
        classes.append(ClassBandwidth(label, int(counts[k]), radius, *own))
    return BandwidthReport(tuple(classes), costs, f1, len(codes), len(numbers), folds, tol)


@dataclass(frozen=True)
class _BandwidthProblem:
    """Sampled rows with their class numbers and weights, on which bandwidths are compared."""

    rows: Rows
    codes: IntArray
    weights: Float64Array | None
    folds: int
    model: KernelSVC
    seed: int

    def scores(self, bandwidth: float) -> tuple[float, Float64Array, Float64Array]:
        """Return accuracy, F1 of each class, and its standard error, from predictions of held-out rows."""
        parameters = {**self.model.get_params(), "gamma": float(bandwidth) ** -2, "random_state": self.seed}
        predicted = np.empty_like(self.codes)
        by_fold = []
        splitter = StratifiedKFold(self.folds, shuffle=True, random_state=self.seed)
        for train, test in splitter.split(np.empty((len(self.codes), 1)), self.codes):
            known = None if self.weights is None else self.weights[train]
            fit = KernelSVC(**parameters).fit(self.rows[train], self.codes[train], known)
            predicted[test] = fit.predict(self.rows[test])
            by_fold.append(self._f1(predicted, test))
        whole = np.arange(len(self.codes))
        accuracy = float(np.average(predicted == self.codes, weights=self.weights))
        return accuracy, self._f1(predicted, whole), np.std(by_fold, axis=0, ddof=1) / self.folds**0.5

    def _f1(self, predicted: IntArray, which: IntArray) -> Float64Array:
        truth, found, n = self.codes[which], predicted[which], int(self.codes.max()) + 1
        w = np.ones(len(which)) if self.weights is None else self.weights[which]
        right = np.bincount(truth, w * (truth == found), n)
        both = np.bincount(truth, w, n) + np.bincount(found, w, n)
        return np.asarray(2.0 * right / np.where(both > 0, both, 1.0))


def _draw_rows(
    codes: IntArray, classes: Array, folds: int, limit: int, rng: np.random.Generator
) -> tuple[IntArray, Float64Array | None]:
    """Return numbers of at most about ``limit`` rows, small classes topped up, and weights for that."""
    counts = np.bincount(codes, minlength=len(classes))
    least = int(counts.argmin())
    if counts[least] < folds:
        raise InputError(
            f"class {quoted(classes.tolist()[least])} has {counts[least]} of the rows, fewer than "
            f"folds={folds}. Use fewer folds (at least 2), or leave out the rows of this class."
        )
    if len(codes) <= limit:
        return np.arange(len(codes)), None
    floor = limit // (2 * len(classes))
    if floor < folds:
        raise InputError(
            f"n_rows={limit} gives each of {len(classes)} classes {floor} rows, fewer than folds={folds}. "
            f"Raise n_rows to {2 * len(classes) * folds} or more, better to hundreds for each class."
        )
    taken = np.minimum(np.maximum(np.rint(counts * (limit / len(codes))), floor), counts).astype(np.intp)
    parts = [rng.choice(np.flatnonzero(codes == k), taken[k], replace=False) for k in range(len(classes))]
    numbers = np.sort(np.concatenate(parts))
    weights = (counts / taken)[codes[numbers]]
    return numbers, weights / weights.mean()


def _cost(search: BlockSearch, bandwidth: float, accuracy: float, tol: float) -> BandwidthCost:
    """Return the sizes that the rule of the block basis factorization gives."""
    n = search.n_rows
    one = search.for_tolerance(tol, n_blocks=1)
    found = search.for_tolerance(tol)
    numbers = int(min(np.ceil(found.size), n * (n + 1) / 2))
    bound = bool(one.unresolved or found.unresolved)
    return BandwidthCost(bandwidth, accuracy, int(one.ranks[0]), found.n_blocks, numbers, bound)


def _median_distance(source: RowSource, rng: np.random.Generator) -> float:
    """Return the median distance between different rows of a sample."""
    rows, _ = sample_rows(source, DISTANCE_ROWS, rng)
    distances = euclidean_distances(rows)
    distances = distances[distances > 0]
    if not len(distances):
        raise InputError(
            "All rows of a sample of X are equal, so that no bandwidth can be chosen. Give bandwidths, or "
            "check the columns of X."
        )
    return float(np.median(distances))


def _radius(rows: Rows) -> float:
    """Return the median distance of rows to their mean."""
    mean = np.asarray(rows.mean(axis=0)).reshape(1, -1)
    return float(np.median(euclidean_distances(rows, mean)))


def _last_best(scores: Float64Array) -> int:
    """Return the last index of the largest score."""
    return len(scores) - 1 - int(scores[::-1].argmax())
