"""The commands of the command line and their options."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from gramian import __version__
from gramian._budget import format_bytes, parse_bytes
from gramian._files import complete_file
from gramian.cli import table_training, training
from gramian.cli.compare import compare
from gramian.cli.files import (
    all_targets,
    data_output,
    files_of,
    kept_columns,
    read_fit_arguments,
    readable,
    refuse_output_over_input,
    rows_for,
    rows_to_train,
)
from gramian.cli.options import (
    CellOptions,
    Memory,
    ModelFile,
    Seed,
    Target,
    Threads,
    Traceback,
    TrainFile,
    TrainingOptions,
    check_settings,
    taking,
)
from gramian.cli.prediction import check_answers, predict_file, set_threads
from gramian.cli.report import on_terminal, print_facts, print_outcome, print_summary, report_errors, say
from gramian.cli.task import Clock, find_task, prepared_target
from gramian.data.writing import check_writable
from gramian.exceptions import InputError
from gramian.model_file import describe, load, save
from gramian.plotting.canvas import pyplot
from gramian.reporting.judging import judge, number
from gramian.reporting.pictures import pictures_of
from gramian.reporting.writing import page, summary_of_file

app = typer.Typer(
    name="gramian",
    help="Kernel machines on a memory budget.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"gramian {__version__}")
        raise typer.Exit


@app.callback()
def gramian(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Accept the options that come before a command."""


@app.command()
@taking(TrainingOptions)
def fit(
    train_file: TrainFile,
    out: Annotated[Path, typer.Option(help="Model file to write; an existing one is replaced.")],
    target: Target = None,
    *,
    settings: TrainingOptions,
    traceback: Traceback = False,
) -> None:
    """Train on a table, score on held-out rows, and save a model fitted on all rows.

    A CSV or Parquet file may hold text, dates and missing values; a search then chooses kernel, metric and
    scaling. An option that belongs to plain kernel ridge regression, or a file of arrays, selects that
    instead.
    """
    with report_errors(traceback), readable(train_file) as train_file:
        settings, tables = check_settings(replace(settings, verbose=on_terminal()), train_file)
        refuse_output_over_input("--out", out, *files_of(train_file, target))
        clock = Clock()
        deadline = time.perf_counter() + (math.inf if settings.time_limit is None else settings.time_limit)
        rows = rows_to_train(train_file, target, settings, as_table=tables)
        per_row = read_fit_arguments(train_file, settings)
        clock.lap("read")
        if tables:
            outcome = table_training.train(rows, settings, per_row, clock, deadline)
        else:
            outcome = training.train(rows, settings, per_row.get("sample_weight"), clock)
        name = rows.target.name if rows.target is not None else ""
        notes = {"task": outcome.task, "target": name, "held out": outcome.held_out_text}
        if settings.missing:
            notes["missing"] = "\n".join(settings.missing)
        save(outcome.model, out, notes=notes)
        clock.lap("save")
        print_outcome(outcome, clock.seconds, out, parse_bytes(settings.memory))


@app.command()
@taking(CellOptions, "text", "drop")
def predict(
    model_file: ModelFile,
    rows_file: Annotated[
        Path, typer.Argument(help="Rows with the model's columns, in any order.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="File to write: .csv, .tsv, .csv.gz, .parquet or .npz, replaced if it exists; - is the "
            "standard output."
        ),
    ],
    *,
    coverage: Annotated[
        float | None,
        typer.Option(help="Add ends (low, high) of intervals that cover this share, such as 0.9."),
    ] = None,
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add the probability of each class.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="A column to write beside the predictions, such as an id; may be repeated."),
    ] = None,
    threads: Threads = None,
    settings: CellOptions,
    traceback: Traceback = False,
) -> None:
    """Predict every row of a file; if the file has the target, print the score."""
    with report_errors(traceback), readable(rows_file) as rows_file, data_output(out) as stream:
        if stream is None:
            check_writable(out)
            refuse_output_over_input("--out", out, model_file, rows_file)
        model, notes = load(model_file), describe(model_file)["notes"]
        check_answers(model, coverage, probabilities)
        set_threads(model, threads)
        kept = kept_columns(rows_file, keep or (), settings, out)
        rows = rows_for(rows_file, model, notes, settings, None)
        predict_file(
            model, rows, out, coverage=coverage, probabilities=probabilities, kept=kept, stream=stream
        )


@app.command()
@taking(TrainingOptions, "metric", "time_limit", "holdout")
def plan(
    train_file: TrainFile, target: Target = None, *, settings: TrainingOptions, traceback: Traceback = False
) -> None:
    """Print the sizes and bytes that a fit would take, without fitting."""
    with report_errors(traceback), readable(train_file) as train_file:
        settings, tables = check_settings(settings, train_file)
        rows = rows_to_train(train_file, target, settings, as_table=tables)
        y = all_targets(rows)
        task, reason = find_task(y, settings.task)
        what = "columns" if tables else "features"
        say(f"{rows.shape[0]:,} rows × {rows.shape[1]:,} {what}, {task} ({reason})")
        y = prepared_target(y, task)
        if tables:
            facts, made = table_training.plan(rows, y, task, settings)
            print_facts(facts)
        else:
            gamma, alpha, made = training.plan(rows, y, task, settings)
            gammas = "" if gamma is None else f"gamma {number(gamma)}, "
            usual = f"{settings.kernel}, {gammas}alpha {number(alpha)}"
            say(f"{usual} (fit searches for those that are not given)")
        say(str(made))


@app.command()
@taking(CellOptions, "text", "drop")
def report(
    model_file: Annotated[
        Path, typer.Argument(help="Model file written by fit or gramian.save.", show_default=False)
    ],
    html: Annotated[Path | None, typer.Option(help="HTML page to write; replaced if it exists.")] = None,
    data: Annotated[Path | None, typer.Option(help="File with rows to score the model on.")] = None,
    target: Annotated[str | None, typer.Option(help="Column of --data with the true values.")] = None,
    *,
    seed: Seed = 0,
    threads: Threads = None,
    settings: CellOptions,
    traceback: Traceback = False,
) -> None:
    """Print what a model file holds and how good the model is; --html writes it as a page with pictures."""
    with report_errors(traceback), readable(data) if data is not None else nullcontext() as data:
        if html is not None:
            pyplot("gramian report")  # raise before the work if it is missing
        refuse_output_over_input("--html", html, model_file, *files_of(data, target))
        if target is not None and data is None:
            raise InputError("--target names a column of --data. Pass --data FILE too.")
        model, header = load(model_file), describe(model_file)
        set_threads(model, threads)
        judged = None
        if data is not None:
            rows = rows_for(data, model, header["notes"], settings, target)
            if target is not None and rows.target is None:
                raise InputError(
                    f"{data} has no column {target!r}. Pass --target with the column of the true values."
                )
            judged = judge(model, rows, None if rows.target is None else all_targets(rows), seed=seed)
        print_summary(summary_of_file(model, header), [] if judged is None else judged.facts())
        if html is not None:
            pictures = list(pictures_of(model, judged, seed=seed))
            text = page(model_file, model, header, pictures, judged, data)
            with complete_file(html) as file:
                file.write(text.encode("utf-8"))
            say(f"Wrote {html} ({format_bytes(html.stat().st_size)}, {len(pictures)} pictures)")


app.command()(compare)


@app.command()
def demo(
    rows: Annotated[int, typer.Option(help="Number of rows to generate.")] = 2_000_000,
    memory: Memory = "300MB",
    out: Annotated[Path, typer.Option(help="Folder for the output files.")] = Path("demo-output"),
    traceback: Traceback = False,
) -> None:
    """Show what a kernel machine on a memory budget does, on generated rows."""
    with report_errors(traceback):
        parse_bytes(memory)
        # Imported here: it needs matplotlib, and no other command should wait for that.
        from gramian.demo import main

        main(rows, memory, out)
