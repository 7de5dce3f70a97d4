"""Output on the terminal: tables of results, and one line for each error or warning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import typer
from rich.console import Console

from gramian._budget import format_bytes
from gramian.cli.outcome import Outcome
from gramian.cli.pipes import without_copies
from gramian.cli.wording import in_options
from gramian.exceptions import GramianError, listed, printable
from gramian.reporting.judging import score_facts, score_text
from gramian.summary import Summary
from gramian.summary.terminal import facts_table, renderable

Step = TypeVar("Step")


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
    return printable(without_copies(in_options(text)))


def on_terminal() -> bool:
    """Return whether the output is a terminal, on which progress bars make sense."""
    return sys.stderr.isatty()


def print_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Print labels with their texts."""
    Console().print(facts_table(facts))


def print_outcome(outcome: Outcome, out: Path, memory: int) -> None:
    """Print what was trained, its scores, how time and ``memory`` bytes were used, and what was not used."""
    facts = [
        ("rows × columns", f"{outcome.n_rows:,} × {outcome.n_features:,}"),
        ("task", f"{outcome.task} ({outcome.reason})"),
        *outcome.facts,
    ]
    if outcome.scores:
        facts.append(("held out", f"{outcome.n_held:,} rows{outcome.how_held}"))
        found = score_facts(outcome.task, outcome.scores, outcome.baseline)
        facts += [(f"  {name}", text) for name, text in found]
    plan = outcome.plan
    if plan is not None:
        many = memory // plan.memory_budget
        each = f" of each of {many} models at a time" if many > 1 else ""
        peak = f"{format_bytes(plan.peak_bytes)} predicted peak{each}"
        facts.append(("memory", f"{peak}, of {format_bytes(memory)}"))
    facts.append(("seconds", _seconds(outcome.seconds)))
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


def print_scores(scores: dict[str, Any], n_rows: int, target: str) -> None:
    """Print the scores of predictions for a file that has the target."""
    say(f"Score on the {n_rows:,} values of {target!r} in the file: {score_text(scores)}")
