"""Errors and warnings of the library, "did you mean" hints, and short quotes of values for error messages."""

from __future__ import annotations

import difflib
import inspect
import unicodedata
from collections.abc import Callable, Iterable

import numpy as np
from sklearn.exceptions import ConvergenceWarning


class GramianError(Exception):
    """Base class of every error that gramian raises on purpose."""


class InputError(GramianError, ValueError):
    """An argument or a data set that cannot be used; the text says what to do."""


class BudgetError(InputError):
    """The memory budget is too small for the work.

    ``least_bytes`` is the smallest budget that works, so that a caller can raise the budget and try again.
    """

    def __init__(self, message: str, least_bytes: int) -> None:
        super().__init__(message)
        self.least_bytes = least_bytes

    def __reduce__(self) -> tuple[type[BudgetError], tuple[str, int]]:
        # A worker process sends its error to the parent by pickle, which keeps ``args`` only.
        return type(self), (str(self), self.least_bytes)


class NumericalError(GramianError, np.linalg.LinAlgError):
    """Rounding or overflow made the result unusable: an indefinite matrix, or numbers that are not finite."""


class ModelFileError(GramianError, ValueError):
    """A file that is not a gramian model, is damaged, or comes from a newer version."""


class MissingPackageError(GramianError, ImportError):
    """An optional package is not installed; the text names the extra to install."""


class ClusterError(GramianError, RuntimeError):
    """The machines of a cluster are gone or cannot do the work; the text says what to do."""


class NumericalWarning(UserWarning):
    """Jitter was added, or an eigenvalue clipped or a direction dropped; the text gives the amount."""


class CheckpointWarning(UserWarning):
    """A checkpoint could not be written; the work goes on without it."""


class AccuracyWarning(ConvergenceWarning):
    """A solver missed its tolerance; the text gives residual, target and remedy.

    It is one of scikit-learn's ``ConvergenceWarning``, so that filters for those apply to it.
    """


#: Most characters that an error shows of a value, and of another package's message (which may quote a value).
QUOTED, MESSAGE = 80, 140


def quoted(value: object) -> str:
    """Return ``repr(value)``, cut to 80 characters, because a cell of a table may hold megabytes of text.

    >>> quoted("Rome"), len(quoted("x" * 1000))
    ("'Rome'", 80)
    """
    return shortened(repr(value))


def printable(text: str) -> str:
    r"""Return text with control characters but line breaks escaped, so that it cannot steer a terminal.

    >>> print(printable("\x1b[31mred"))
    \x1b[31mred
    """
    if text.isprintable():
        return text
    steering = {c for c in set(text) - {"\n"} if unicodedata.category(c) in ("Cc", "Cf", "Cs")}
    return "".join(c.encode("unicode_escape").decode() if c in steering else c for c in text)


def shortened(text: str, most: int = QUOTED) -> str:
    """Return the text, cut to ``most`` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def listed(items: Iterable[object], most: int = 10, *, show: Callable[[object], str] = quoted) -> str:
    """Return at most ``most`` items, and the number of the others; ``show`` writes one of them.

    >>> listed(["a", "b", "c"], 2), listed("ab")
    ("'a', 'b', and 1 more", "'a', 'b'")
    """
    texts = [show(item) for item in items]
    return ", ".join(texts[:most]) + (f", and {len(texts) - most:,} more" if len(texts) > most else "")


def did_you_mean(word: object, choices: Iterable[str], *, cutoff: float = 0.5) -> str:
    """Return ``" Did you mean 'x'?"`` for the nearest choice, or an empty string.

    ``cutoff`` is the least likeness, from 0 to 1. Capitals do not count.

    >>> did_you_mean("tabularregresor", ["TabularRegressor", "TabularClassifier"])
    " Did you mean 'TabularRegressor'?"
    """
    known = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(str(word).lower(), known, n=1, cutoff=cutoff)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


#: Packages whose lines a warning does not point at: this one, and those that call it for a user.
_BETWEEN = {"concurrent", "contextlib", "functools", "gramian", "joblib", "sklearn", "threading"}


def user_level() -> int:
    """Return the ``stacklevel`` at which a warning of the calling line points at the user's line.

    1, the calling line itself, where a thread runs no line of the user.
    """
    level, frame = 0, inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    return 1 if frame is None else level
