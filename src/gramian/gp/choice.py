"""Choice of a Gaussian process's posterior by the loss of each on held-out targets."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gramian._typing import Float64Array, Rows
from gramian.data.source import as_source, sample_rows
from gramian.engine import Engine
from gramian.estimator.answers import PREDICT_ROWS
from gramian.estimator.labelled import LabelledRows
from gramian.exceptions import AccuracyWarning, user_level
from gramian.gp.calibration import BandCheck
from gramian.gp.composite import block_likelihood, block_of
from gramian.gp.neighbours import FEWEST, NeighbourPosterior
from gramian.gp.posterior import Posterior
from gramian.gp.prior import Hyperparameters

#: Most neighbours that are tried: from the fewest on twice as many, while the loss falls. By hand.
MOST = 512
#: A posterior that predicts more slowly must lower the loss by so much; neighbours, whose mean jumps in gaps
#: between the rows, by so many standard errors of the gain too. By hand.
GAIN, CLEARLY = 0.01, 2.0
#: Held-out rows that choose the number of neighbours, rows that compare hyperparameters, and rows they are
#: compared among. By hand.
CHOOSING_ROWS, JUDGED_ROWS, AMONG_ROWS = 500, 1_000, 50_000
#: Random rows whose exact likelihood compares hyperparameters too, and what a nat of it for each row counts
#: beside the loss on rows left out. A tenth decides where left-out rows differ by noise, and outweighs a gain
#: on these where the likelihood falls by hundreds. Chosen by hand.
FAR_ROWS, FAR_SHARE = 500, 0.1
#: Rows by whose midpoints two views of a process are compared, joint deviations from which they differ, and
#: the share of points that is told. Sound fits differ at up to 1.3 % of them, unsound ones at 80 %. By hand.
VIEWED_ROWS, APART, TOLD = 200, 3.0, 0.05


@dataclass(frozen=True)
class Chosen:
    """The posterior that was chosen: whether its mean is the exact one, and its neighbours, 0 for none."""

    exact: bool
    neighbours: int
    losses: dict[str, float]  #: on held-out targets, of each that was tried

    @property
    def reason(self) -> str:
        """What was chosen, and what was measured."""
        near = f"from the nearest {self.neighbours} rows"
        mean = "the mean solved from all rows" if self.exact else f"mean and deviation {near}"
        if not self.exact and not self.neighbours:
            mean = "mean and deviation by the multi-resolution approximation"
        mean += f", the deviation {near}" if self.exact and self.neighbours else ""
        texts = ", ".join(f"{name} {value:.3f}" for name, value in self.losses.items())
        return f"{mean} (held-out loss: {texts})" if texts else mean


def choose_posterior(
    nested: Posterior | None,
    near: NeighbourPosterior | None,
    rows: Rows,
    targets: Float64Array,
    noise: float,
    engine: Engine,
    weights: Float64Array | None = None,
) -> tuple[Chosen, BandCheck]:
    """Return the fastest posterior whose loss on held-out targets is within 0.01 of the best, and its check.

    Neighbours must also be better than any other mean by two standard errors. All rows compare: where errors
    have heavy tails, a few hundred cannot tell a mean that errs a tenth less.

    nested : the posterior given the other rows, with its exact mean if there is one; None where neighbours
    were asked for. near : the neighbours among these rows; None where they are not possible. Deviations are
    scaled to the errors before these are compared, as they are in predictions.
    """
    checks: list[tuple[bool, int, str, BandCheck]] = []
    local = None
    if near is not None:
        own = None if weights is None else weights[:CHOOSING_ROWS]
        count = _enough(near, rows[:CHOOSING_ROWS], targets[:CHOOSING_ROWS], engine, own)
        local = count, near_check(replace(near, count=count), rows, targets, engine, weights=weights)
    if nested is not None:
        check = held_out_check(replace(nested, mean=None), rows, targets, noise, engine, weights)
        checks.append((False, 0, "multi-resolution", check))
        if nested.mean is not None:
            means = np.asarray(nested.mean.chunk(rows, engine), np.float64)
            solved = replace(check, means=means, errors=targets - means)
            checks.append((True, 0, "exact mean", solved))
            if local is not None:
                both = replace(local[1], means=means, errors=solved.errors)
                checks.append((True, local[0], f"exact mean with deviations of {local[0]} neighbours", both))
    if local is not None:
        checks.append((False, local[0], f"{local[0]} neighbours", local[1]))
    losses = {name: check.loss for _, _, name, check in checks}
    if local is not None and len(checks) > 1:
        smooth = min((check for *_, check in checks[:-1]), key=lambda check: check.loss)
        if not clearly_better(local[1], smooth):
            checks.pop()
    best = min(losses[name] for _, _, name, _ in checks)
    chosen = next(one for one in checks if losses[one[2]] <= best + GAIN)
    return Chosen(chosen[0], chosen[1], losses), chosen[3]


def clearly_better(check: BandCheck, other: BandCheck) -> bool:
    """Tell whether the loss of a check is less than the other's, on the same rows, by two standard errors."""
    gains = _row_losses(other) - _row_losses(check)
    return bool(gains.mean() > CLEARLY * gains.std() / np.sqrt(len(gains)))


def _row_losses(check: BandCheck) -> Float64Array:
    """Return what each row adds to the loss, to first order in its squared error, up to a constant: (m,)."""
    wide = check.deviations[:, None] * check.spread
    squares = np.square(check.errors)
    size = max(float(squares.mean()), np.finfo(np.float64).tiny)
    each = squares / np.square(wide) + 2.0 * np.log(wide) + squares / size + np.log(size)
    return np.asarray(0.25 * each.mean(axis=1))


def _enough(
    near: NeighbourPosterior, rows: Rows, targets: Float64Array, engine: Engine, weights: Float64Array | None
) -> int:
    """Return the number of neighbours from which twice as many gain nothing."""
    count, best = near.count, near_check(near, rows, targets, engine, weights=weights).loss
    while 2 * count <= MOST:
        loss = near_check(replace(near, count=2 * count), rows, targets, engine, weights=weights).loss
        if loss > best - GAIN:
            break
        count, best = 2 * count, loss
    return count


def near_check(
    near: NeighbourPosterior,
    rows: Rows,
    targets: Float64Array,
    engine: Engine,
    without: np.ndarray | None = None,
    weights: Float64Array | None = None,
) -> BandCheck:
    """Return the errors of neighbours at rows, left out of them where ``without`` gives their numbers."""
    mean, variance = near.moments(rows, engine, without=without)
    return BandCheck(targets - mean, np.sqrt(variance), held_out=True, means=mean, weights=weights)


def warn_where_views_differ(
    near: NeighbourPosterior, nested: Posterior, rows: Float64Array, engine: Engine
) -> None:
    """Warn if neighbours and nested bases differ beyond their deviations at rows and midpoints of pairs.

    Both approximate one process. Where they differ, the kernel sees farther than the neighbours reach, or the
    features do not hold what it says. A tenth of the noise's deviation is allowed for rounding.
    """
    points = np.concatenate([rows, 0.5 * (rows + np.roll(rows, 1, axis=0))])
    mean, variance = near.moments(points, engine)
    seen = held_out_check(nested, points, mean, 0.01 * near.noise, engine)
    joint = np.hypot(seen.deviations, np.sqrt(np.maximum(variance - near.noise, 0.0)))
    share = float((np.abs(seen.errors) > APART * joint[:, None]).any(axis=1).mean())
    if share > TOLD:
        warnings.warn(
            f"two approximations of this process, by the nearest {near.count} rows and by multi-resolution "
            f"bases, have means that differ by more than {APART:g} deviations at {share:.0%} of "
            f"{len(points)} points (rows, and midpoints of pairs). Bands there can miss the truth, most "
            "of all in gaps between the rows. Check that kernel and lengthscales suit the data, set "
            "approximation='exact' where memory allows it, or add rows in the gaps.",
            AccuracyWarning,
            stacklevel=user_level(),
        )


def held_out_check(
    fitted: Posterior,
    rows: Rows,
    targets: Float64Array,
    noise: float,
    engine: Engine,
    weights: Float64Array | None = None,
) -> BandCheck:
    """Return the errors of a posterior on rows that it was not given."""
    answers = np.empty((len(targets), targets.shape[1] + 1))
    for where, moments in fitted.moments(as_source(rows), chunk_rows=PREDICT_ROWS, engine=engine):
        answers[where] = moments
    means, deviations = answers[:, :-1], np.sqrt(answers[:, -1] + noise)
    return BandCheck(targets - means, deviations, held_out=True, means=means, weights=weights)


def leave_one_out_judge(
    known: LabelledRows[Any], engine: Engine, rng: np.random.Generator
) -> Callable[[Hyperparameters], float]:
    """Return hyperparameters ↦ the loss on rows left out, given their neighbours, and a share of another.

    Of 1,000 rows, among 50,000 at most; the same ones for all hyperparameters. Where rows are dense this loss
    hardly depends on the lengthscales, which decide what is predicted far from rows. Therefore a tenth of
    −log p(y)/n of 500 random rows is added.
    """
    some = np.sort(rng.permutation(known.n)[:AMONG_ROWS])
    among = known.taken(some) if len(some) < known.n else known
    rows, numbers = sample_rows(among.source, JUDGED_ROWS, rng)
    targets, counts = among.numbers[numbers], None if among.weights is None else among.weights[numbers]
    seed = int(rng.integers(2**31))
    far = block_of(known, np.sort(rng.permutation(known.n)[:FAR_ROWS]))

    def judge(hyper: Hyperparameters) -> float:
        near = NeighbourPosterior.of(among, hyper, FEWEST, np.random.default_rng(seed))
        loss = near_check(near, rows, targets, engine, np.asarray(numbers), counts).loss
        try:
            loss -= FAR_SHARE * block_likelihood(hyper, far)[0] / far.targets.size
        except np.linalg.LinAlgError:
            return np.inf
        return loss if np.isfinite(loss) else np.inf

    return judge
