"""The commands and their options."""

from __future__ import annotations

import warnings
from enum import StrEnum
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from sklearn.pipeline import Pipeline

from gramian import __version__
from gramian._budget import format_bytes, parse_bytes
from gramian._files import complete_file
from gramian._typing import Array
from gramian.cli import contest
from gramian.cli.drawing import check_drawing
from gramian.cli.judging import judge
from gramian.cli.model_page import judged_facts, page, summary_of_file
from gramian.cli.pictures import pictures_of
from gramian.cli.report import (
    held_out_text,
    number,
    on_terminal,
    print_outcome,
    print_scores,
    print_summary,
    reported,
    say,
    watched,
)
from gramian.cli.training import (
    CLASSIFICATION,
    PLAN_ALPHA,
    Choice,
    Clock,
    Settings,
    as_float,
    check,
    estimator,
    find_task,
    fit_scaler,
    predict_rows,
    prepared_target,
    scale_in_place,
    scores,
    split,
    train,
    usual_gamma,
)
from gramian.data.files import NPZ, SVMLIGHT, Table, file_format, read_arrays, read_table, write_predictions
from gramian.exceptions import InputError
from gramian.model_file import describe, load, save

app = typer.Typer(
    name="gramian",
    help="Kernel machines on a memory budget.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class Task(StrEnum):
    """What the target is."""

    AUTO = "auto"
    REGRESSION = "regression"
    CLASSIFICATION = "classification"


Target = Annotated[str | None, typer.Option(help="Column to predict (CSV and Parquet need it).")]
TaskOption = Annotated[Task, typer.Option(help="What to fit; auto looks at the target.")]
Kernel = Annotated[str, typer.Option(help="rbf, laplacian, exponential, matern32, poly, …")]
Gamma = Annotated[float | None, typer.Option(help="Kernel parameter; chosen by a search if left out.")]
Alpha = Annotated[float | None, typer.Option(help="Ridge penalty; chosen by a search if left out.")]
Approximation = Annotated[str, typer.Option(help="auto, exact, multiresolution or meka.")]
Memory = Annotated[str, typer.Option(help="Working memory beyond the table, such as 500MB.")]
Standardize = Annotated[bool, typer.Option(help="Bring every feature to mean 0 and deviation 1.")]
Seed = Annotated[int, typer.Option(min=0, help="Same seed, same model.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads; all cores if left out.")]
Traceback = Annotated[bool, typer.Option("--traceback", help="Show where an error came from.")]
ModelFile = Annotated[Path, typer.Argument(help="What fit or gramian.save has written.", show_default=False)]
TrainFile = Annotated[
    Path, typer.Argument(help=".csv, .csv.gz, .parquet, .npz, .svmlight", show_default=False)
]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"gramian {__version__}")
        raise typer.Exit


@app.callback()
def gramian(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Take the options that come before a command."""


@app.command()
def fit(
    train_file: TrainFile,
    out: Annotated[Path, typer.Option(help="Model file to write; an existing one is replaced.")],
    target: Target = None,
    task: TaskOption = Task.AUTO,
    kernel: Kernel = "rbf",
    gamma: Gamma = None,
    alpha: Alpha = None,
    approximation: Approximation = "auto",
    memory: Memory = "1GB",
    standardize: Standardize = True,
    holdout: Annotated[float, typer.Option(min=0.0, max=0.9, help="Share held out for a score.")] = 0.2,
    seed: Seed = 0,
    threads: Threads = None,
    traceback: Traceback = False,
) -> None:
    """Train on a table, score on held-out rows, and save a model fitted on all rows."""
    with reported(traceback):
        settings = Settings(
            task,
            kernel,
            gamma,
            alpha,
            approximation,
            memory,
            standardize,
            holdout,
            seed,
            threads,
            on_terminal(),
        )
        check(settings)
        check_folder(out)
        clock = Clock()
        table = _training_table(train_file, target)
        clock.lap("read")
        outcome = train(table, settings)
        notes = {"task": outcome.task, "target": table.target or "", "held out": held_out_text(outcome)}
        clock.lap("train")
        save(outcome.model, out, notes=notes)
        clock.lap("save")
        outcome.seconds = {
            "read": clock.seconds["read"],
            **outcome.seconds,
            "save": clock.seconds["save"],
        }
        print_outcome(outcome, out)


@app.command()
def predict(
    model_file: ModelFile,
    rows_file: Annotated[
        Path, typer.Argument(help="Rows with the model's columns, in any order.", show_default=False)
    ],
    out: Annotated[Path, typer.Option(help=".csv, .csv.gz, .parquet or .npz; replaced if it exists.")],
    threads: Threads = None,
    traceback: Traceback = False,
) -> None:
    """Predict every row of a file; where the file has the target, print the score."""
    with reported(traceback):
        if file_format(out) == SVMLIGHT or not out.parent.is_dir():
            write_predictions(out, {"prediction": np.empty(0)})  # says why, before the work and not after
        model, notes = load(model_file), describe(model_file)["notes"]
        first, last = (model[0], model[-1]) if isinstance(model, Pipeline) else (model, model)
        last.n_jobs = threads
        table = _rows_to_predict(rows_file, first, notes.get("target") or None)
        with warnings.catch_warnings():
            # The columns were picked by these very names.
            warnings.filterwarnings("ignore", "X does not have valid feature names", UserWarning)
            predicted = predict_rows(model, table.X)
        write_predictions(out, {"prediction": predicted})
        say(f"Wrote {len(predicted):,} predictions to {out}")
        if table.y is not None:
            _print_score(table, predicted, hasattr(last, "classes_"))


@app.command()
def plan(
    train_file: TrainFile,
    target: Target = None,
    task: TaskOption = Task.AUTO,
    kernel: Kernel = "rbf",
    gamma: Gamma = None,
    alpha: Alpha = None,
    approximation: Approximation = "auto",
    memory: Memory = "1GB",
    standardize: Standardize = True,
    seed: Seed = 0,
    threads: Threads = None,
    traceback: Traceback = False,
) -> None:
    """Print the sizes, bytes and seconds that a fit would take, without fitting."""
    with reported(traceback):
        settings = Settings(
            task, kernel, gamma, alpha, approximation, memory, standardize, 0.0, seed, threads, False
        )
        check(settings)
        table = _training_table(train_file, target)
        assert table.y is not None
        found, reason = find_task(table.y, task)
        X, y = as_float(table.X), prepared_target(table.y, found)
        if standardize:
            X = scale_in_place(fit_scaler(X), X)
        if gamma is None:
            gamma = usual_gamma(kernel, X, np.random.default_rng(seed))
        choice = Choice(gamma, PLAN_ALPHA if alpha is None else alpha)
        made = estimator(found, settings, choice).plan(X, y)
        say(f"{X.shape[0]:,} rows × {X.shape[1]:,} features, {found} ({reason})")
        gammas = "" if choice.gamma is None else f"gamma {number(choice.gamma)}, "
        say(f"{kernel}, {gammas}alpha {number(choice.alpha)} (fit searches for those that are not given)")
        say(str(made))


@app.command()
def report(
    model_file: Annotated[
        Path, typer.Argument(help="What fit or gramian.save has written.", show_default=False)
    ],
    html: Annotated[Path | None, typer.Option(help="Page to write; replaced if it exists.")] = None,
    data: Annotated[Path | None, typer.Option(help="Rows to judge the model on.")] = None,
    target: Annotated[str | None, typer.Option(help="Its column with the true values.")] = None,
    seed: Seed = 0,
    threads: Threads = None,
    traceback: Traceback = False,
) -> None:
    """Say what a model file holds and how good it is; with --html as one page with pictures."""
    with reported(traceback):
        if html is not None:
            check_drawing()
            check_folder(html)
        if target is not None and data is None:
            raise InputError("--target names a column of --data. Pass --data FILE too.")
        model, header = load(model_file), describe(model_file)
        first, last = (model[0], model[-1]) if isinstance(model, Pipeline) else (model, model)
        last.n_jobs = threads
        judged = None
        if data is not None:
            table = _rows_to_predict(data, first, target or header["notes"].get("target") or None)
            if target is not None and table.y is None:
                raise InputError(f"{data} has no target column {target!r}, to judge the model by.")
            judged = judge(model, table, seed=seed)
        print_summary(summary_of_file(model, header), [] if judged is None else judged_facts(judged))
        if html is not None:
            pictures = list(pictures_of(model, judged, seed=seed))
            text = page(model_file, model, header, pictures, judged, data)
            with complete_file(html) as file:
                file.write(text.encode("utf-8"))
            say(f"Wrote {html} ({format_bytes(html.stat().st_size)}, {len(pictures)} pictures)")


@app.command()
def compare(
    train_file: TrainFile,
    target: Target = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="For search and fit of each method.")] = 60.0,
    memory: Memory = "1GB",
    task: TaskOption = Task.AUTO,
    json: Annotated[Path | None, typer.Option(help="File for the results as JSON.")] = None,
    seed: Seed = 0,
    threads: Threads = None,
    traceback: Traceback = False,
) -> None:
    """Fit gramian, Nystroem and gradient boosting in the same time, and show how good they are."""
    with reported(traceback):
        parse_bytes(memory)
        if json is not None:
            check_folder(json)
        table = _training_table(train_file, target)
        assert table.y is not None
        found, reason = find_task(table.y, task)
        rules = contest.Rules(found, seconds, memory, seed, threads)
        y = prepared_target(table.y, found)
        contest.checked(rules, table.X, y)
        X, y, n_train = split(as_float(table.X), y, found, contest.HELD_OUT, seed)
        held = contest.Held(np.asarray(X[:n_train]), y[:n_train], np.asarray(X[n_train:]), y[n_train:])
        say(f"{found} ({reason}), {len(contest.METHODS)} methods with {seconds:g} s each")
        entries = list(watched(contest.entries(held, rules), contest.METHODS))
        print_summary(contest.summary(entries, held, rules))
        if json is not None:
            record = contest.record(entries, held, rules, train_file.name)
            with complete_file(json) as file:
                file.write(dumps(record, indent=1, allow_nan=False).encode("utf-8"))
            say(f"Wrote {json}")
        if all(entry.failure is not None for entry in entries):
            raise InputError("no method could be fitted. The reasons are above.")


@app.command()
def demo(
    rows: Annotated[int, typer.Option(help="Rows to make.")] = 200_000,
    memory: Memory = "300MB",
    out: Annotated[Path, typer.Option(help="Folder for what it writes.")] = Path("demo-output"),
    traceback: Traceback = False,
) -> None:
    """Show on made rows what a kernel machine on a memory budget does."""
    with reported(traceback):
        parse_bytes(memory)
        # Imported here: it draws, and no other command should wait for matplotlib.
        from gramian.demo import main

        main(rows, memory, out)


def check_folder(path: Path) -> None:
    """Raise, before the work and not after, where a file cannot be written."""
    if not path.parent.is_dir():
        raise InputError(f"Cannot write {path}: the folder {path.parent} does not exist. Create it first.")


def _training_table(path: Path, target: str | None) -> Table:
    table = read_table(path, target=target)
    if table.y is None:
        names = f" (one of its columns: {', '.join(table.feature_names[:10])})" if table.feature_names else ""
        raise InputError(f"{path} gives no target to learn. Pass --target NAME{names}.")
    if table.y.ndim != 1:
        raise InputError(f"{path}: the target has shape {table.y.shape}. Store one number a row, shape (n,).")
    return table


def _rows_to_predict(path: Path, first: Any, target: str | None) -> Table:
    """Read the model's columns by name, or by position where the model or the file has no names."""
    names = list(first.feature_names_in_) if hasattr(first, "feature_names_in_") else None
    kind, width = file_format(path), int(first.n_features_in_)
    if kind == SVMLIGHT:
        return read_table(path, n_features=width)
    if kind == NPZ and "feature_names" not in read_arrays(path, ["feature_names"]):
        names = None
    expected = width if names is None else None
    if target is not None:
        try:
            return read_table(path, target=target, columns=names, n_features=expected)
        except InputError as error:
            # Rows to predict need no target, or have it for some rows only; other errors come again.
            table = read_table(path, columns=names, n_features=expected)
            absent = (f"has no target column {target!r}", f"has no array {target!r}")
            if not any(text in str(error) for text in absent):
                say(f"Not scored: {error}")
            return table
    return read_table(path, columns=names, n_features=expected)


def _print_score(table: Table, predicted: Array, classes: bool) -> None:
    assert table.y is not None
    y = table.y
    text = predicted.dtype.kind in "OUS"
    # Files of rows to predict hold a constant where their format asks for a target (svmlight).
    if y.ndim != 1 or len(np.unique(y)) < 2 or text != (y.dtype.kind in "OUS"):
        say("Not scored: the target in the file is constant, or of another type than the predictions.")
        return
    task = CLASSIFICATION if classes else "regression"
    print_scores(scores(task, y, predicted), len(y), table.target or "y")
