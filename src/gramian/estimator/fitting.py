"""The frame of a fit: checked parameters, progress bars, every attribute put back where the fit fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from tqdm.std import tqdm

from gramian._budget import give_back_early
from gramian._phases import Counter, Phases
from gramian.estimator.constraints import check_parameters
from gramian.exceptions import NumericalError


@contextmanager
def all_or_nothing(estimator: BaseEstimator, *, keep: bool = True) -> Iterator[None]:
    """Open a fit: check the parameters, and put every attribute back if the body fails.

    ``keep=False`` puts them back in any case. Fits only ever rebind attributes, so that the names and
    references are all there is to restore. A new model whose coefficients are not finite counts as a failure
    (:func:`check_finite`).
    """
    check_parameters(estimator)
    give_back_early()
    held = vars(estimator)
    before = dict(held)
    done = False
    try:
        yield
        if keep:
            for name in ("predictor_", "posterior_", "intercept_", "y_std_"):
                if held.get(name) is not before.get(name):
                    check_finite(held.get(name), type(estimator).__name__)
        done = keep
    except np.linalg.LinAlgError as error:
        if isinstance(error, NumericalError):
            raise
        raise NumericalError(
            f"{type(estimator).__name__} could not factor a matrix ({error}): numbers overflowed, or are too "
            "far apart in size. Scale the features and targets, raise alpha (lower C), or pass "
            "tile_dtype='float64'."
        ) from error
    finally:
        if not done:
            held.clear()
            held.update(before)


def remove(estimator: BaseEstimator, name: str) -> None:
    """Remove an attribute of an earlier fit, if there is one."""
    vars(estimator).pop(name, None)


#: Names of what a model learns by solving systems, in predictors of every kind.
LEARNED = ("coefficients", "weights", "offsets", "predictor")


def check_finite(learned: object, name: str) -> None:
    """Raise where a predictor, or an array, is not finite; ``name`` is the estimator's."""
    if isinstance(learned, np.ndarray):
        if learned.dtype.kind == "f" and not np.isfinite(learned).all():
            raise NumericalError(
                f"{name} ended with coefficients that are not finite: sums or kernel values overflowed, or "
                "a solve diverged. Scale the features and targets, raise alpha (lower C), or pass "
                "tile_dtype='float64'."
            )
    elif isinstance(learned, tuple | list):
        for part in learned:
            check_finite(part, name)
    else:
        for part in LEARNED:
            check_finite(getattr(learned, part, ()), name)


#: Seconds between refreshes of a bar while nothing is counted, so that its clock shows that the fit goes on.
TICK_SECONDS = 1.0
#: Line of a phase of which only the seconds are known.
CLOCK = "{desc}{elapsed}"


@contextmanager
def shown_bar(verbose: int, **options: Any) -> Iterator[tqdm[Any]]:
    """Give a bar of tqdm, which is shown if ``verbose``, and gone when it is done.

    As the place demands it is a widget in a notebook, and a line in a terminal (and in a log, where standard
    error goes to a file). The choice is made when a bar is to be shown, and not when gramian is imported:
    tqdm warns in notebooks that lack ipywidgets, which is of no use to those who asked for no bar.
    """
    if not verbose:
        with tqdm(disable=True, **options) as bar:
            yield bar
        return
    from tqdm.auto import tqdm as fitting

    with fitting(leave=False, **options) as bar, _ticking(bar):
        yield bar


@contextmanager
def _ticking(bar: tqdm[Any]) -> Iterator[None]:
    """Refresh a bar about once a second from a thread of its own, until the body ends."""
    over = Event()

    def tick() -> None:
        while not over.wait(TICK_SECONDS):
            bar.refresh()

    thread = Thread(target=tick, name="gramian progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def shown_phases(verbose: int) -> Iterator[Phases]:
    """Give a function that begins a phase; if ``verbose``, a bar shows the current phase.

    ``phases("sums", 1000)`` sets the bar back to 0 of 1,000 rows and returns the function to call with each
    number of rows that are done. Seconds and seconds left are those of the phase.
    """
    with shown_bar(verbose, unit="rows", desc="fit", bar_format=CLOCK) as bar:

        def counter(done: int, news: str = "") -> None:
            if news:
                bar.set_postfix_str(news, refresh=False)
            bar.update(done)

        def begin(phase: str, total: int | None = None, *, unit: str = "rows") -> Counter:
            bar.set_description(phase, refresh=False)
            bar.set_postfix_str("", refresh=False)
            bar.unit, bar.total = unit, total
            # Of work that nobody counts tqdm would say "0rows [00:03, ?rows/s]".
            bar.bar_format = CLOCK if unit == "rows" and not total else None
            bar.reset(total)
            return counter

        yield begin
