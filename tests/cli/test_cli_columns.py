"""Columns with a role on the command line, and the wording of its messages."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from command_line import bad, good
from typer.testing import CliRunner

import gramian as gm
from gramian.cli.app import app
from gramian.cli.options import TrainingOptions
from gramian.cli.report import OPTIONS, in_options
from gramian.model_file import describe
from gramian.reporting.judging import scores, trivial

for extra in ("typer", "pyarrow", "pandas"):
    pytest.importorskip(extra)


RNG = np.random.default_rng(0)
N = 80
FRAME = pd.DataFrame(
    {
        "id": [f"visit {i}" for i in range(N)],
        "x": RNG.standard_normal(N),
        "z": RNG.standard_normal(N),
        "patient": RNG.integers(0, 12, N),
        "date": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.permutation(N), unit="D"),
        "w": RNG.integers(0, 3, N) / 2,
    }
)
FRAME["cost"] = np.sin(FRAME.x) + 0.1 * RNG.standard_normal(N)
QUICK = ["--kernel", "laplacian", "--metric", "none", "--threads", "1"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The rows with a column of lists, which no model takes."""
    whole = pa.table(FRAME).append_column("tags", pa.array([[1, 2]] * N))
    pq.write_table(whole, tmp_path / "visits.parquet")
    return tmp_path / "visits.parquet"


@pytest.mark.parametrize("role", ["groups", "time"])
def test_columns_reach_the_fit_and_are_no_features(
    role: str, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[tuple[str, ...], dict[str, Any]]] = []
    real = gm.TabularRegressor.fit

    def fit(self: gm.TabularRegressor, X: Any, y: Any, **beside: Any) -> gm.TabularRegressor:
        calls.append((X.names, beside))
        return real(self, X, y, **beside)

    monkeypatch.setattr(gm.TabularRegressor, "fit", fit)
    column, other = ("patient", "date") if role == "groups" else ("date", "patient")
    options = ["--target", "cost", f"--{role}", column, "--weight", "w", "--out", tmp_path / "m.gramian"]
    dropped = [text for name in ("id", "tags", other) for text in ("--drop", name)]
    said = good("fit", table, *QUICK, *options, *dropped)
    (names, first), (_, whole) = calls
    assert names == ("x", "z")
    np.testing.assert_array_equal(whole["sample_weight"], FRAME.w)
    np.testing.assert_array_equal(whole[role], FRAME[column])
    used, every = np.unique(first[role]), np.unique(whole[role])
    held = np.setdiff1d(every, used)
    assert len(held) > 0
    assert (first["sample_weight"] > 0).all()
    if role == "groups":  # no group is in both parts
        n_held = int((FRAME.patient.isin(held) & (FRAME.w > 0)).sum())
        assert len(first[role]) + n_held == (FRAME.w > 0).sum()
        assert f"{n_held} rows, whole groups of 'patient'" in said
    else:
        assert used.max() < FRAME.date[(FRAME.w > 0) & ~FRAME.date.isin(used)].min()
        assert "rows, the latest by 'date'" in describe(tmp_path / "m.gramian")["notes"]["held out"]
    found = []
    for rows in (FRAME, FRAME[["z", "x"]]):
        rows.to_csv(tmp_path / "new.csv", index=False)
        good("predict", tmp_path / "m.gramian", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
        found.append((tmp_path / "p.csv").read_text())
    assert found[0] == found[1]


@pytest.mark.parametrize("target", ["cost", "kind"])
def test_a_row_of_weight_0_is_none_and_one_of_weight_2_is_two(target: str, tmp_path: Path) -> None:
    frame = FRAME[["x", "z", "w", "cost"]].assign(kind=np.where(FRAME.cost > 0, "high", "low"))
    frame[["x", "z", "w", target]].to_csv(tmp_path / "weighted.csv", index=False)
    rows = np.repeat(np.arange(N), (2 * FRAME.w).astype(int))
    frame.loc[rows, ["x", "z", target]].to_csv(tmp_path / "repeated.csv", index=False)
    found = []
    # The command divides weights by their mean, so that a penalty means the same for weights of any size.
    alpha = 0.1 * 2 * FRAME.w.sum() / (FRAME.w > 0).sum()
    for name, penalty, weight in (("weighted", 0.1, ["--weight", "w"]), ("repeated", alpha, [])):
        options = ["--target", target, "--gamma", "0.5", "--alpha", penalty, "--approximation", "exact"]
        out = tmp_path / f"{name}.gramian"
        good("fit", tmp_path / f"{name}.csv", *options, *weight, "--holdout", "0", "--out", out)
        model = gm.load(out)
        answer = model.predict if target == "cost" else model.decision_function
        found.append(answer(frame[["x", "z"]]))
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_scores_count_rows_by_their_weights(task: str) -> None:
    times = RNG.integers(0, 3, N)
    y, predicted = (RNG.integers(0, 4, N).astype(float) for _ in range(2))
    rows = np.repeat(np.arange(N), times)
    assert scores(task, y, predicted, times) == pytest.approx(scores(task, y[rows], predicted[rows]))
    assert trivial(task, y, 1, times) == pytest.approx(trivial(task, y[rows], 1))


def test_slips_are_told(table: Path, tmp_path: Path) -> None:
    y = ("--target", "cost", "--out", tmp_path / "m.gramian")
    np.savez(tmp_path / "t.npz", X=np.ones((20, 2)), y=np.arange(20.0))
    drop = ("--drop", "tags")
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((table, *y, "--drop", "tag"), "has no column 'tag'. Did you mean 'tags'?"),
        ((table, *y, *drop, "--groups", "patients"), "has no column 'patients'. Did you mean 'patient'?"),
        ((table, *y, "--drop", "cost"), "'cost' is named by --target and by --drop"),
        ((table, *y, *drop, "--groups", "patient", "--gamma", "1"), "--groups belongs to the table model"),
        ((tmp_path / "t.npz", y[2], y[3], "--weight", "w"), "names no columns, so that --drop"),
        ((table, *y, *drop, "--weight", "id"), "cannot be read as numbers"),
    ]
    for arguments, said in cases:
        assert said in bad("fit", *arguments), arguments
    few = FRAME.assign(w=np.where(np.arange(N) < 9, 1.0, 0.0))[["x", "w", "cost"]]
    few.to_csv(tmp_path / "few.csv", index=False)
    assert "9 rows are too few" in bad("fit", tmp_path / "few.csv", *y, "--weight", "w")
    for command in ("plan", "compare"):
        said = bad(command, table, "--target", "cost", "--drop", "tag")
        assert "Did you mean 'tags'?" in said
    assert "80 rows × 2 columns" in good(
        *("plan", table, "--target", "cost", *drop, "--drop", "id", "--groups", "patient"),
        *("--weight", "w", "--time", "date"),
    )


# ---- messages name options --------------------------------------------------------------------------

for extra in ("typer", "pyarrow", "pandas"):
    pytest.importorskip(extra)


N_ROWS = 60
X = np.random.default_rng(0).standard_normal(N_ROWS)
#: Options whose names no parameter of the library has.
OWN = {"task", "holdout"}


def test_every_option_has_a_parameter_that_messages_name() -> None:
    hints = get_type_hints(TrainingOptions, include_extras=True)
    names = {f.name for f in fields(TrainingOptions) if get_origin(hints[f.name]) is Annotated}
    options = {f"--{name.replace('_', '-')}" for name in names - OWN}
    assert options <= set(OPTIONS.values())
    assert set(OPTIONS.values()) - options == {"--coverage"}


@pytest.mark.parametrize("name", OPTIONS)
def test_each_parameter_is_said_as_its_option(name: str) -> None:
    said = in_options(
        f"{name}='a=1' of column '{name}=2' is wrong. Raise it ({name}=), or pass {name}=['b']."
    )
    option = OPTIONS[name]
    wanted = f"{option} 'a=1' of column '{name}=2' is wrong. Raise it ({option}), or pass {option} 'b'."
    assert said == wanted


def test_unused_columns_are_the_last_line_or_an_error(tmp_path: Path) -> None:
    frame = pd.DataFrame({"it is": 2, "x": X, "z": X**2, "one": 1, "y": X})
    frame.to_csv(tmp_path / "t.csv", index=False)
    quick = ["--target", "y", "--kernel", "laplacian", "--metric", "none", "--threads", "1"]
    command = ["fit", str(tmp_path / "t.csv"), *quick, "--out", str(tmp_path / "m.gramian")]
    result = CliRunner().invoke(app, command)
    assert result.stdout.splitlines()[-1] == "Not used: 2 of 4 columns, 'it is', 'one'."
    assert re.search(r"predicted peak.*, of 1 GB", " ".join(result.stdout.split()))
    for again in (command, ["plan", str(tmp_path / "t.csv"), "--target", "y"]):
        result = CliRunner().invoke(app, [*again, "--drop", "z"])
        assert result.exit_code == 1
        said = " ".join(result.stderr.split())
        assert "2 of 3 columns cannot be used. Column 'it is' is constant and is not used." in said
        assert said.endswith("pass --drop 'it is' --drop one.")
