"""What the command line prints: tables for people, errors and warnings in one line each."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TextIO, TypeVar

import typer
from rich.console import Console
from rich.table import Table as Grid

from gramian._budget import format_bytes
from gramian.cli.training import Outcome
from gramian.exceptions import GramianError
from gramian.summary import Summary
from gramian.summary.terminal import renderable

Step = TypeVar("Step")


@contextmanager
def reported(traceback: bool) -> Iterator[None]:
    """End with exit code 1 and one line for an error that the user can mend; warnings take a line too."""
    with warnings.catch_warnings():
        warnings.showwarning = _warn
        try:
            yield
        # OSError: a folder that cannot be written to, a full disk.
        except (GramianError, ValueError, OSError) as error:
            if traceback:
                raise
            typer.echo(f"Error: {error}", err=True)
            raise typer.Exit(1) from None


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    typer.echo(f"Warning: {message}", err=True)


def say(text: str) -> None:
    """Print a line as it is: file names and column names are not markup."""
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def on_terminal() -> bool:
    """Tell whether progress bars have somebody to look at them."""
    return sys.stderr.isatty()


def number(value: float) -> str:
    """Write four figures."""
    return "not defined" if math.isnan(value) else f"{value:.4g}"


def print_outcome(outcome: Outcome, out: Path) -> None:
    """Print what was trained, how good it is, and where time and memory went."""
    plan, choice = outcome.fitted.plan_, outcome.choice
    grid = Grid(show_header=False, box=None, padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")

    def row(label: str, text: str) -> None:
        grid.add_row(label, text)

    row("rows × features", f"{outcome.n_rows:,} × {outcome.n_features:,}")
    row("task", f"{outcome.task} ({outcome.reason})")
    gamma = "" if choice.gamma is None else f"gamma {choice.gamma:.4g}, "
    row("kernel", f"{outcome.fitted.kernel}, {gamma}alpha {choice.alpha:.4g}")
    if choice.tried:
        row("", f"the best of {choice.tried} pairs on {choice.rows:,} rows ({number(choice.score)})")
    row("method", f"{plan.method} ({plan.reason})")
    row("blocks, rank", f"{len(outcome.fitted.predictor_.weights[-1])}, {outcome.fitted.rank_:,}")
    if outcome.scores:
        row("held out", f"{outcome.n_held:,} rows")
        for name, value in outcome.scores.items():
            simple = "mean" if outcome.task == "regression" else "commonest class"
            row(f"  {name}", f"{number(value)} ({simple}: {number(outcome.baseline[name])})")
    row("memory", f"{format_bytes(plan.peak_bytes)} predicted peak, of {format_bytes(plan.memory_budget)}")
    row("seconds", ", ".join(f"{phase} {took:.2f}" for phase, took in outcome.seconds.items()))
    row("  of the fit", ", ".join(f"{phase} {took:.2f}" for phase, took in plan.used_seconds.items()))
    row("model", f"{out} ({format_bytes(out.stat().st_size)})")
    Console().print(grid, markup=False, highlight=False)
    if outcome.scores:
        say("The saved model was fitted on all rows, the held-out ones too, after that score was taken.")


def held_out_text(outcome: Outcome) -> str:
    """Return the held-out scores as a note for the model file; empty where nothing was held out."""
    if not outcome.scores:
        return ""
    texts = ", ".join(f"{name} {number(value)}" for name, value in outcome.scores.items())
    return f"{texts} on {outcome.n_held:,} rows, before the fit to all rows"


def watched(steps: Iterable[Step], names: Sequence[str]) -> Iterator[Step]:
    """Yield the steps; on a terminal say which one is under way."""
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
    """Print what a model is, and what it made of some rows."""
    console = Console()
    console.print(renderable(summary))
    if judged:
        console.print()
        console.print(renderable(Summary("Judged", tuple(judged))))


def print_scores(scores: dict[str, Any], n_rows: int, target: str) -> None:
    """Print the scores of predictions whose targets were in the file."""
    text = ", ".join(f"{name} {number(value)}" for name, value in scores.items())
    say(f"Score on the {n_rows:,} values of {target!r} in the file: {text}")
