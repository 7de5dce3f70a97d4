"""All laws of one case with a limit of time, and what happened as a record that travels between processes."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from adversary.cases import Case
from adversary.draw import draw
from adversary.laws import LAWS, laws_of
from adversary.trial import Broken, Refused, Trial

#: Seconds of processor time that a case may take with all of its laws: 30 on two cores.
LIMIT = 60.0


class TooLong(Exception):
    """A case that was still at work at the end of its time."""


@dataclass
class Failure:
    """A law that a case broke."""

    law: str
    case: Case
    text: str
    excess: float


@dataclass
class Verdict:
    """What happened to a case: failures, the largest error over tolerance by law, refusal, seconds."""

    number: int
    case: Case
    failures: list[Failure] = field(default_factory=list)
    worst: dict[str, float] = field(default_factory=dict)
    refused: str = ""
    vacuous: bool = False
    seconds: float = 0.0


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise :class:`TooLong` in the body after some seconds of processor time, of all threads.

    Not of the clock: beside other work a case of one second may take thirty.
    """

    def stop(signum: int, frame: Any) -> None:
        raise TooLong(f"the case was still at work after {seconds:g} s of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def judged(seed: int, number: int, limit: float = LIMIT) -> Verdict:
    """Draw a case and check all of its laws."""
    case = draw(seed, number)
    verdict, trial = Verdict(number, case), Trial(case)
    began = time.perf_counter()
    law = "fits"
    try:
        with limited(limit):
            for law in laws_of(case):
                trial.worst = 0.0
                try:
                    LAWS[law][0](trial)
                except (Refused, TooLong):
                    raise
                except Exception as error:
                    excess = error.excess if isinstance(error, Broken) else float("inf")
                    name = "" if isinstance(error, Broken) else f"{type(error).__name__}: "
                    verdict.failures.append(Failure(law, case, f"{name}{error}", excess))
                    if law == "fits":
                        break
                verdict.worst[law] = trial.worst
    except Refused as refusal:
        verdict.refused = str(refusal)
    except TooLong as error:
        verdict.failures.append(Failure("in time", case, f"{error}, in the law {law!r}", float("inf")))
    verdict.vacuous = trial.vacuous
    verdict.seconds = time.perf_counter() - began
    return verdict
