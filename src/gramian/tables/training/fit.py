"""Final fit of a table model to all rows, with metric and penalty chosen on held-out rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from gramian._phases import silent
from gramian._typing import Array, Float64Array, IntArray
from gramian.engine import Engine
from gramian.estimator.answers import log_probabilities, probabilities
from gramian.estimator.labelled import LabelledRows
from gramian.estimator.targets import ClassTargets
from gramian.fast.probabilities import Calibration
from gramian.metric.learning import Round
from gramian.ridge.ridge import KernelRidge
from gramian.tables.boosting.boosted import LEAST_GAIN, Boosted, Contributions
from gramian.tables.effort import BOOSTED_ROWS
from gramian.tables.importance.permutation import HeldOutModel
from gramian.tables.importance.unseen import FoldsUnseen
from gramian.tables.ridge_mean import RidgeMean, ridge_estimator
from gramian.tables.training.boosting import with_boosting
from gramian.tables.training.gain import Gain, HeldLoss, look, mean_of
from gramian.tables.training.member import Member, all_in_time, fit_exact, stream_model
from gramian.tables.training.model_factory import ModelFactory
from gramian.tables.training.rounds import learn_point, time_small_fit
from gramian.tables.training.time import TimeEstimate

#: Fraction of the rows held out for validation, and the largest number of them. Chosen by hand.
HELD_PART, MOST_HELD = 0.2, 4_000
#: A second model is fitted if its held-out error after the rounds is at most this multiple of the first
#: one's. It is left out if its weight in the mean comes out below the second number, and boosting of numbers
#: too. Chosen by hand.
NEAR, LEAST_SHARE = 1.1, 0.1
#: Share of the remaining time that the rounds may take, and of what remains after them, the share for the
#: first of two models. Chosen by hand.
ROUNDS_TIME, FIRST_TIME = 0.3, 0.6


@dataclass(frozen=True)
class LastFit:
    """The models of all rows, and the evidence from the rows that were held out at first.

    ``members`` and their ``weights`` make a mean. ``held`` are the numbers of the held-out rows, of all rows
    where the models of a small table come without each fifth of them; ``values`` their mean values (held,
    outputs) from models without them; ``short`` a phrase that says what there was no time for ("" if there
    was time for all); ``source`` the rows.
    """

    members: tuple[Member, ...]
    weights: tuple[float, ...]
    held: IntArray
    values: Float64Array
    short: str
    boosted: Boosted | None = None
    boosted_values: Float64Array | None = None
    boosted_unseen: FoldsUnseen | None = None
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
        trees = self.boosted_unseen if boosted else None
        return HeldOutModel(self.source, self.held, members, weights, trees, answer, loss)

    @property
    def model(self) -> RidgeMean | KernelRidge:
        """The mean, or the only model, as an estimator."""
        models = [ridge_estimator(each.setup, each.model) for each in self.members]
        if len(models) == 1 and self.boosted is None:
            return models[0]
        return RidgeMean.of(models, self.weights, boosted=self.boosted, share=self.share)

    def with_boosted(self, boosted: Boosted, values: Float64Array, unseen: FoldsUnseen | None = None) -> Self:
        """Return this fit with boosting and its values (n, outputs) of rows that it has not seen."""
        return replace(self, boosted=boosted, boosted_values=values[self.held], boosted_unseen=unseen)

    def mixed(self, loss: HeldLoss) -> LastFit:
        """Return the mean of numbers with boosting, unless its share comes out below a tenth.

        Boosting has the weight 1 if the kernel models lower its loss by less than 0.2 %. The values are those
        of the mean.
        """
        if self.boosted is None or self.boosted_values is None:
            return self
        other = self.boosted_values.reshape(self.values.shape)
        share, both = mean_of(self.values, other, self.held, loss)
        gain = Gain.of_values(self.values, both, self.held, loss)
        kernel, boosting, mix = (loss(values, self.held) for values in (self.values, other, both))
        parts = Contributions(kernel, boosting, mix, gain.error, share >= LEAST_SHARE, self.looks)
        if not parts.kept:
            return replace(self, boosted=None, contributions=parts)
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
        boosted, trees, contributions = None, self.boosted_values, None
        if trees is not None:
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
                boosted = self.boosted
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
    factories, given = [*factories], factories[0]
    rows, holdout, whole = given.rows, given.holdout, given.resources
    n, counted, timing = rows.n, rows.counted, TimeEstimate(deadline)
    held = np.sort(holdout.held(counted, min(MOST_HELD, int(HELD_PART * len(counted))), rng))
    rest, y = np.delete(np.arange(n), held), np.asarray(rows.targets.values)
    if given.classifies and len(np.unique(y[rest])) < len(np.unique(y)):
        # Every row of this class is needed for training.
        held = held[np.isin(y[held], y[rest])]
        rest = np.delete(np.arange(n), held)
    trees, tried = None, boost and len(held) > 0 and len(counted) >= BOOSTED_ROWS
    if tried:
        groups = tuple(each for each in switched if len(each) > 1)
        given.phases("boosting")
        labelled = LabelledRows(rows.source, y, rows.weights)
        every = given.effort.leaves_out_all(len(counted))
        trees = with_boosting(labelled, groups, given.classifies, held, holdout, whole, deadline, rng, every)
    rounds: list[tuple[Round, ...]] = [() for _ in factories]
    looks = tuple[tuple[float, float, bool], ...]()
    if timing.limited:
        time_small_fit(factories[0], rest, timing)
    if learn and len(held) and not timing.is_over:
        # Models this small are learned faster side by side than on several threads each.
        seeds, share = rng.spawn(len(factories)), whole.memory_bytes // len(factories)
        single = [
            replace(each.with_resources(engine=Engine(1), memory_bytes=share), phases=silent)
            for each in factories
        ]
        short = timing.part(ROUNDS_TIME)

        def learned(j: int) -> tuple[ModelFactory, tuple[Round, ...], Float64Array | None]:
            factory, rounds, values = learn_point(single[j], held, rest, loss, switched, seeds[j], short)
            return replace(factory, resources=whole, phases=given.phases), rounds, values

        given.phases("metric and bandwidth")
        refined = whole.engine.map(learned, range(len(factories)))
        errors = [min((r.error for r in each), default=math.inf) for _, each, _ in refined]
        order = np.argsort(errors, kind="stable").tolist()
        refined = [refined[j] for j in order if errors[j] <= NEAR * min(errors)] or [refined[order[0]]]
        small = [values for *_, values in refined if values is not None]
        if trees is not None and len(small) == len(refined):
            others = trees[1][held]
            if given.classifies:  # 2 P − 1, as ridge models have
                others = 2.0 * probabilities(others)[:, 1 if others.shape[1] == 1 else 0 :] - 1.0
            looked = look(others, small, held, loss)
            looks = tuple((gain.loss, gain.error, helps) for gain, helps in looked)
            refined = [each for each, (*_, helps) in zip(refined, looks, strict=True) if helps] or refined[:1]
            if not any(helps for *_, helps in looks):
                effort = replace(given.effort, exact=False, logistic=False)
                refined = [(replace(each, effort=effort), own, values) for each, own, values in refined]
        factories, rounds = [each for each, *_ in refined], [own for _, own, _ in refined]
    if not len(held) or timing.is_over or not all_in_time(factories, rest, timing):
        factories, rounds = factories[:1], rounds[:1]

    def as_large(half: ModelFactory, factory: ModelFactory) -> bool:
        """Return whether half of the memory holds a model as large as all of it does."""
        if factory.exact_factory() is not None:
            return half.exact_factory() is not None
        return half.plan(factory.approximations[0], np.arange(n), streamed=True) is not None

    def member(factory: ModelFactory, timing: TimeEstimate = timing) -> Member:
        return fit_exact(factory, held, rest, loss, timing) or stream_model(factory, held, rest, loss, timing)

    # A single model uses all threads. Two models train side by side, one thread each, if memory holds both:
    # some of their steps do not run in parallel. If memory holds only one exact model, a second one would
    # take as long again; an approximate one gives more than half of its benefit.
    half = whole.memory_bytes // 2
    halves = [replace(each.with_resources(memory_bytes=half), phases=silent) for each in factories]
    if len(factories) > 1 and all(map(as_large, halves, factories)):
        given.phases("two models")
        members = whole.engine.map(member, halves)
    else:
        members = [member(factories[0], timing.part(FIRST_TIME) if len(factories) > 1 else timing)]
        alone = members[0].model.plan.method == "exact"
        for factory in factories[1:]:
            members.append(stream_model(factory, held, rest, loss, timing) if alone else member(factory))
    for j, (each, own) in enumerate(zip(members, rounds, strict=True)):
        members[j] = replace(each, rounds=own, setup=each.setup.with_memory(whole.memory_bytes))
    fit = replace(_average(members, held, loss), source=rows.source, looks=looks)
    if trees is not None:
        fit = fit.with_boosted(*trees)
        return fit if given.classifies else fit.mixed(loss)
    return replace(fit, short=fit.short or ("boosting was left out" if tried else ""))


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
