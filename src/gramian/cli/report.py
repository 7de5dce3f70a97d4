"""Output on the terminal: results, errors and warnings, in the words of the command line."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

import typer
from rich.console import Console

from gramian._budget import format_bytes
from gramian.cli.task import Outcome
from gramian.exceptions import GramianError, listed, printable
from gramian.reporting.judging import score_facts
from gramian.summary import Summary
from gramian.summary.terminal import facts_table, renderable

#: Options by the names of the parameters that they set.
OPTIONS = {
    "memory_budget": "--memory",
    "time_limit": "--time-limit",
    "random_state": "--seed",
    "n_jobs": "--threads",
    "sample_weight": "--weight",
    "columns": "--drop",
    "text": "--text",
} | {
    name: f"--{name}"
    for name in (
        *("alpha", "approximation", "categorical", "coverage", "encoding", "gamma", "groups", "kernel"),
        *("metric", "missing", "sep", "standardize", "time"),
    )
}
#: Whole phrases, the more special ones first.
_PHRASES = tuple(
    (re.compile(pattern), text)
    for pattern, text in (
        (r"[\w=\[\]]+, on the command line (--[\w-]+)", r"\1"),
        (r"\(on the command line (--[\w-]+)\)", r"(\1)"),
        (r" \(in Python: [^()]*(\([^()]*\))?[^()]*\)", ""),
        (r"standardize=False", "--no-standardize"),
        (r"standardize=True", "--standardize"),
        (r"time_limit=[\d.e+-]+ s was", "--time-limit was"),  # one of the fits gets a part of it
        (r",? or (use |pass )?tile_dtype='float64',?", ""),
        (r", a gramian Kernel, or a callable f\(X, Z\)", ""),
        (r", or pass an unfitted instance such as [^.]*\.[^.]*\)", ""),
        (r", drop the row, or let gramian\.open_data\(.*?\) leave out such rows", " or drop the row"),
        (
            r"or pass categorical='onehot' to gramian\.open_data for .* of its values",
            "or give no option of plain kernel ridge regression, so that the model of tables takes it",
        ),
        (r"convert the column or drop it", "convert the column or leave it out (--drop)"),
        (r"use (TabularRegressor|KernelRidge)\b", "pass --task regression"),
        (r"use (TabularClassifier|KernelRidgeClassifier)\b", "pass --task classification"),
        (r"\bX(?= has| holds)|(?<=of )X\b", "the table"),
        (r"(?<![\w'])y(?= has| holds| mixes| cannot)|(?<=Input )y\b|(?<=how )y\b", "the target"),
        (r"\bgroups and time are both", "--groups and --time are both"),
        (r"^((?:Error|Warning): )?(categorical|groups|time)(?= (has|is|names|holds) )", r"\1--\2"),
        (r"\b([Ll]eave )(groups|time)(?= out)", r"\1--\2"),
    )
)
#: Quoted text, which stays as it is, and parameters, with or without a value.
_PARAMETER = re.compile(
    rf"(?<!\w)'[^']*'|(?<![\w.-])(?P<name>{'|'.join(OPTIONS)})=(\[(?P<list>[^\]]*)\]|(?P<value>(?=[^\s),;.])))?"
    rf"|\b(?P<bare>{'|'.join(name for name in OPTIONS if '_' in name)})\b"
)


def in_options(text: str) -> str:
    """Return a message with the names of options in place of those of parameters.

    >>> print(in_options("memory_budget='lots' is not a size. Leave out column 'time=3' (columns=)."))
    --memory 'lots' is not a size. Leave out column 'time=3' (--drop).
    """
    for pattern, words in _PHRASES:
        text = pattern.sub(words, text)
    return _PARAMETER.sub(_option, text)


def _option(match: re.Match[str]) -> str:
    name = match["name"] or match["bare"]
    if name is None:
        return match[0]
    if match["list"] is not None:
        return f"{OPTIONS[name]} {match['list']}"
    return OPTIONS[name] + (" " if match["value"] is not None else "")


Step = TypeVar("Step")
#: Name of the copy of the standard input, and the paths of such a copy.
STANDARD_INPUT = "standard-input.csv"
_COPY = re.compile(rf"[^\s'\"]*{re.escape(STANDARD_INPUT)}")


@contextmanager
def report_errors(traceback: bool) -> Iterator[None]:
    """End with exit code 1 and one line for an error that the user can fix; print warnings as one line."""
    said: set[str] = set()

    def show_once(message: Warning | str, *_: object) -> None:
        # The score and the last fit may warn about the same column.
        if str(message) not in said:
            said.add(str(message))
            typer.echo(_shown(f"Warning: {message}"), err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show_once  # type: ignore[assignment]
        try:
            yield
        except BrokenPipeError:  # as "| head" makes: Typer ends without a word
            raise
        # OSError covers a folder without write permission and a full disk.
        except (GramianError, ValueError, OSError) as error:
            if traceback:
                raise
            typer.echo(_shown(f"Error: {error}"), err=True)
            raise typer.Exit(1) from None


def say(text: str) -> None:
    """Print a line literally, so that file and column names are not read as markup."""
    Console().print(_shown(text), markup=False, highlight=False, soft_wrap=True)


def _shown(text: str) -> str:
    return printable(_COPY.sub("the standard input", in_options(text)))


def on_terminal() -> bool:
    """Return whether the output is a terminal, on which progress bars make sense."""
    return sys.stderr.isatty()


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print labels with their texts."""
    Console().print(facts_table(facts))


def print_outcome(outcome: Outcome, seconds: dict[str, float], out: Path, memory: int) -> None:
    """Print what was trained, its scores, how time and ``memory`` bytes were used, and what was not used."""
    facts = [
        ("rows × columns", f"{outcome.n_rows:,} × {outcome.n_features:,}"),
        ("task", f"{outcome.task} ({outcome.reason})"),
        *outcome.facts,
    ]
    if outcome.scores:
        facts.append(("held out", f"{outcome.n_held:,} rows{outcome.how_held}"))
        score_lines = score_facts(outcome.task, outcome.scores, outcome.baseline)
        facts += [(f"  {name}", text) for name, text in score_lines]
    plan = outcome.plan
    if plan is not None:
        many = memory // plan.memory_budget
        each = f" of each of {many} models at a time" if many > 1 else ""
        peak = f"{format_bytes(plan.peak_bytes)} predicted peak{each}"
        facts.append(("memory", f"{peak}, of {format_bytes(memory)}"))
    facts.append(("seconds", _seconds(seconds)))
    if plan is not None and plan.used_seconds:
        facts.append(("  of the fit", _seconds(plan.used_seconds)))
    facts.append(("model", f"{out} ({format_bytes(out.stat().st_size)})"))
    print_facts(facts)
    if outcome.scores and outcome.on_all_rows:
        say("The saved model was fitted on all rows, the held-out ones too, after that score was taken.")
    if outcome.unused:
        say(f"Not used: {len(outcome.unused):,} of {outcome.n_features:,} columns, {listed(outcome.unused)}.")


def _seconds(phases: dict[str, float]) -> str:
    return ", ".join(f"{phase} {took:.2f}" for phase, took in phases.items())


def show_steps(steps: Iterable[Step], names: Sequence[str]) -> Iterator[Step]:
    """Yield the steps; on a terminal show which one is running."""
    waiting = iter(steps)
    for number_, name in enumerate(names, 1):
        with (
            Console(stderr=True).status(f"{name} ({number_} of {len(names)})")
            if on_terminal()
            else nullcontext()
        ):
            step = next(waiting)
        yield step


def print_summary(summary: Summary, judged: Sequence[tuple[str, str]] = ()) -> None:
    """Print the summary of a model, and its scores on some rows if they are given."""
    console = Console()
    console.print(renderable(summary))
    if judged:
        console.print()
        console.print(renderable(Summary("Scores", tuple(judged))))
