"""Final fit of a table model to all rows, with metric and penalty chosen on held-out rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gramian._typing import Array, Float64Array, IntArray
from gramian.estimator.answers import log_probabilities, probabilities
from gramian.estimator.targets import ClassTargets
from gramian.fast.probabilities import Calibration
from gramian.metric.learning import Round
from gramian.ridge.ridge import KernelRidge
from gramian.search import Split
from gramian.tables.boosting.boosted import LEAST_GAIN, Contributions
from gramian.tables.effort import BOOSTED_ROWS
from gramian.tables.importance.permutation import HeldOutModel
from gramian.tables.ridge_mean import RidgeMean, ridge_estimator
from gramian.tables.training.boosting import BoostedFit, with_boosting
from gramian.tables.training.gain import Gain, HeldLoss, look, mean_of
from gramian.tables.training.member import Member, all_in_time, fit_exact, stream_model
from gramian.tables.training.model_factory import ModelFactory
from gramian.tables.training.rounds import learn_points, time_small_fit
from gramian.tables.training.time import TimeEstimate

#: Fraction of the rows held out for validation, and the largest number of them. Chosen by hand.
HELD_PART, MOST_HELD = 0.2, 4_000
#: A model is left out if its weight in the mean comes out below this, and boosting of numbers too. Chosen by
#: hand.
LEAST_SHARE = 0.1
#: Share of the remaining time for the first of two models. Chosen by hand.
FIRST_TIME = 0.6


@dataclass(frozen=True)
class LastFit:
    """The models of all rows, and the evidence from the rows that were held out at first.

    ``members`` and their ``weights`` make a mean, which ``boosting`` may join. ``held`` are the numbers of
    the held-out rows, of all rows where the models of a small table come without each fifth of them;
    ``values`` their mean values (held, outputs) from models without them; ``short`` a phrase that says what
    there was no time for ("" if there was time for all); ``source`` the rows.
    """

    members: tuple[Member, ...]
    weights: tuple[float, ...]
    held: IntArray
    values: Float64Array
    short: str
    boosting: BoostedFit | None = None
    share: float = 0.0
    contributions: Contributions | None = None
    looks: tuple[tuple[float, float, bool], ...] = ()
    source: Any = None

    @property
    def rounds(self) -> tuple[Round, ...]:
        """The metric rounds of the leading model."""
        return self.members[int(np.argmax(self.weights))].rounds

    def judged(
        self,
        answer: Callable[[Float64Array, Float64Array | None], Float64Array],
        loss: HeldLoss,
        boosted: bool,
    ) -> HeldOutModel:
        """Return the models without the held-out rows, by which permuted columns are judged.

        answer : from their values and those of boosting, if it is ``boosted``, to answers; loss : of these.
        """
        alone = self.contributions is not None and self.contributions.boosting_alone
        members = [] if alone else [each.unseen for each in self.members]
        weights = () if alone else self.weights
        trees = self.boosting[2] if boosted and self.boosting is not None else None
        return HeldOutModel(self.source, self.held, members, weights, trees, answer, loss)

    @property
    def model(self) -> RidgeMean | KernelRidge:
        """The mean, or the only model, as an estimator."""
        models = [ridge_estimator(each.setup, each.model) for each in self.members]
        if self.boosting is not None:
            return RidgeMean.of(models, self.weights, boosted=self.boosting[0], share=self.share)
        return models[0] if len(models) == 1 else RidgeMean.of(models, self.weights)

    def mixed(self, loss: HeldLoss) -> LastFit:
        """Return the mean of numbers with boosting, unless its share comes out below a tenth.

        Boosting has the weight 1 if the kernel models lower its loss by less than 0.2 %. The values are those
        of the mean.
        """
        if self.boosting is None:
            return self
        other = self.boosting[1][self.held].reshape(self.values.shape)
        share, both = mean_of(self.values, other, self.held, loss)
        gain = Gain.of_values(self.values, both, self.held, loss)
        kernel, boosting, mix = (loss(values, self.held) for values in (self.values, other, both))
        parts = Contributions(kernel, boosting, mix, gain.error, share >= LEAST_SHARE, self.looks)
        if not parts.kept:
            return replace(self, boosting=None, contributions=parts)
        if parts.boosting_alone:
            share, both = 1.0, other
        return replace(self, values=both, share=share, contributions=parts)

    def calibrated(
        self, targets: ClassTargets, weights: Array | None
    ) -> tuple[RidgeMean, LastFit, Float64Array]:
        """Return the mean of classifiers that gives calibrated log odds, with logistic models if they help.

        They are left out if they lower the held-out log-loss by less than 0.2 %, boosting if it lowers it by
        no more than any further fitted number would, and all models but boosting if they lower its loss by
        less than 0.2 %. Also return this fit with what boosting contributes, and the
        probabilities (held, classes) of the held-out rows.
        """
        codes = targets.codes(slice(0, targets.shape[0]))[self.held]
        weights = None if weights is None else weights[self.held]
        values = self.values.reshape(len(self.held), targets.shape[1])
        models = [each.model for each in self.members]
        calibration, others = Calibration.of_labels(values, codes, weights), None
        parts = [each.logistic for each in self.members if each.logistic is not None]
        if len(parts) == len(models):
            logs = np.average([part.values for part in parts], axis=0, weights=self.weights)
            joint = Calibration.of_labels(values, codes, weights, logs)
            alone = calibration.log_loss(values, codes, weights)
            if joint.log_loss(values, codes, weights, logs) < (1.0 - LEAST_GAIN) * alone:
                calibration, others = joint, logs
                models = [part.with_ridge(model) for part, model in zip(parts, models, strict=True)]
        boosted, trees, contributions = None, None, None
        if self.boosting is not None:
            trees = self.boosting[1][self.held]
            joint = Calibration.of_labels(values, codes, weights, others, trees)
            each = [
                -logs[np.arange(len(codes)), codes]
                for logs in (
                    calibration.log_probabilities(values, others),
                    log_probabilities(trees),
                    joint.log_probabilities(values, others, trees),
                )
            ]
            gain = Gain.of_rows(each[0], each[2], weights)
            kernel, boosting, both = (float(np.average(losses, weights=weights)) for losses in each)
            helps = gain.beyond_fit(weights, len(codes))
            contributions = Contributions(kernel, boosting, both, gain.error, helps, self.looks)
            if helps:
                calibration = Calibration(0.0, boosting=1.0) if contributions.boosting_alone else joint
                boosted = self.boosting[0]
        trees = None if boosted is None else trees
        chances = np.exp(calibration.log_probabilities(values, others, trees))
        made = [ridge_estimator(each.setup, own) for each, own in zip(self.members, models, strict=True)]
        mean = RidgeMean.of(made, self.weights, targets.classes, calibration, boosted)
        return mean, replace(self, contributions=contributions), chances


def last_fit(
    factories: Sequence[ModelFactory],
    loss: HeldLoss,
    *,
    boost: bool,
    learn: bool,
    switched: tuple[tuple[int, ...], ...],
    rng: np.random.Generator,
    deadline: float,
) -> LastFit:
    """Refine metrics on more rows, fit to most rows, choose penalties on the held-out rows, add these.

    Parameters
    ----------
    factories : for one model or for two of the same scaled rows: kernel, metric, bandwidth and penalty to
        start from. Two models are averaged if the second comes near the first, with the weights that do best
        on the held-out rows.
    loss : error of the decision values of held-out rows.
    boost, learn : whether to try boosting, and to refine the metric in further rounds.
    switched : groups of columns whose values are switched in place of a derivative.
    deadline : when it should end, by ``time.perf_counter``.

    The rounds fit small models (a root of 300, blocks of rank 100) to at most 10,000 rows, 20,000 in a
    classification. The sums over the first part of the rows serve every penalty, and the sums over the
    held-out rows are added to them, so that a model costs one pass over the rows. If memory allows (a
    Cholesky factor up to 2,500 rows, beyond that the tiles of K's lower half: 19,000 rows in 1 GB), the last
    models are exact; up to 2,500 rows the models of the rounds are exact too.
    """
    given, timing = factories[0], TimeEstimate(deadline)
    split = split_rows(given, rng)
    held, boosting = split.held_out, None
    tried = boost and len(held) > 0 and len(given.rows.counted) >= BOOSTED_ROWS
    if tried:
        given.phases("boosting")
        groups = tuple(each for each in switched if len(each) > 1)
        boosting = with_boosting(given, groups, held, deadline, rng)
    if timing.limited:
        time_small_fit(given, split.train, timing)
    looks = tuple[tuple[float, float, bool], ...]()
    if learn and len(held) and not timing.is_over:
        given.phases("metric and bandwidth")
        factories, small = learn_points(factories, split, loss, switched, rng, timing)
        if boosting is not None and len(small) == len(factories):
            others = boosting[1][held]
            if given.classifies:  # 2 P − 1, as ridge models have
                others = 2.0 * probabilities(others)[:, 1 if others.shape[1] == 1 else 0 :] - 1.0
            looks = look(others, small, held, loss)
            helping = [each for each, (*_, helps) in zip(factories, looks, strict=True) if helps]
            approximate = replace(given.effort, exact=False, logistic=False)
            factories = helping or [replace(factories[0], effort=approximate)]
    if not len(held) or timing.is_over or not all_in_time(factories, split.train, timing):
        factories = factories[:1]
    fit = _average(train_members(factories, split, loss, timing), held, loss)
    fit = replace(fit, source=given.rows.source, looks=looks, boosting=boosting)
    if boosting is not None:
        return fit if given.classifies else fit.mixed(loss)
    return replace(fit, short=fit.short or ("boosting was left out" if tried else ""))


def split_rows(factory: ModelFactory, rng: np.random.Generator) -> Split:
    """Hold out a fifth of the rows, at most 4,000; a class whose rows are all among them is trained on."""
    counted, every = factory.rows.counted, np.arange(factory.rows.n)
    held = np.sort(factory.holdout.held(counted, min(MOST_HELD, int(HELD_PART * len(counted))), rng))
    rest = np.delete(every, held)
    if factory.classifies:
        classes = np.asarray(factory.rows.targets.values)
        held = held[np.isin(classes[held], classes[rest])]
        rest = np.delete(every, held)
    return Split(rest, held)


def train_members(
    factories: Sequence[ModelFactory], split: Split, loss: HeldLoss, timing: TimeEstimate
) -> list[Member]:
    """Train one or two models of all rows, each exactly if memory and time allow it.

    A single model uses all threads. Two models train side by side, one thread each, if memory holds both:
    some of their steps do not run in parallel. If memory holds only one exact model, a second one would take
    as long again; an approximate one gives more than half of its benefit.
    """
    whole = factories[0].resources

    def member(factory: ModelFactory, timing: TimeEstimate = timing) -> Member:
        return fit_exact(factory, split, loss, timing) or stream_model(factory, split, loss, timing)

    halves = [each.part(2) for each in factories]
    if len(factories) > 1 and all(map(_as_large, halves, factories)):
        factories[0].phases("two models")
        members = whole.engine.map(member, halves)
    else:
        members = [member(factories[0], timing.part(FIRST_TIME) if len(factories) > 1 else timing)]
        alone = members[0].model.plan.method == "exact"
        for factory in factories[1:]:
            members.append(stream_model(factory, split, loss, timing) if alone else member(factory))
    return [replace(each, setup=each.setup.with_memory(whole.memory_bytes)) for each in members]


def _as_large(half: ModelFactory, factory: ModelFactory) -> bool:
    """Return whether half of the memory holds a model as large as all of it does."""
    if factory.exact_factory() is not None:
        return half.exact_factory() is not None
    return half.plan(factory.approximations[0], np.arange(half.rows.n), streamed=True) is not None


def _average(members: list[Member], held: IntArray, loss: HeldLoss) -> LastFit:
    """Return the weighted mean of one or two models, with weights from the held-out rows."""
    if any(len(each.held) != len(members[0].held) for each in members):
        members = [each.narrow(held) for each in members]
    first, second = members[0], members[-1]
    held, short = first.held, first.short or second.short
    share, mean = 0.0, first.values
    if first is not second:
        share, mean = mean_of(first.values, second.values, held, loss)
    if LEAST_SHARE <= share <= 1.0 - LEAST_SHARE:
        return LastFit((first, second), (1.0 - share, share), held, mean, short)
    kept = first if share < LEAST_SHARE else second
    return LastFit((kept,), (1.0,), held, kept.values, short)
