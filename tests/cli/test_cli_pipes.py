"""Standard input and output in place of files; no command writes over a file that it reads."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command_line import bad, run

import gramian as gm
from gramian.data.formats.numpy_files import read_arrays
from gramian.reporting import rows as cli_rows

for extra in ("typer", "pyarrow", "pandas"):
    pytest.importorskip(extra)


RNG = np.random.default_rng(0)
N = 60
FRAME = pd.DataFrame(
    {
        "code": [f"{i:03}" for i in range(N)],
        "size": [f"{value:.3f}0" for value in RNG.random(N)],
        "a": RNG.standard_normal(N),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(N), unit="D"),
    }
)
FRAME["y"] = np.sin(FRAME.a)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    gm.save(gm.KernelRidge(gamma=1.0).fit(FRAME[["a"]], FRAME.y), tmp_path / "m.gramian")
    return tmp_path / "m.gramian"


def test_rows_and_predictions_through_pipes(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_rows, "STEP", 25)
    rows = FRAME.to_csv(index=False).encode()
    result = run("predict", model, "-", "--out", "-", "--keep", "code", "--keep", "size", given=rows)
    assert result.exit_code == 0, result.output
    found = pd.read_csv(io.StringIO(result.stdout), dtype=str)  # nothing else is there
    assert list(found) == ["code", "size", "prediction"]
    assert (found["code"].tolist(), found["size"].tolist()) == (FRAME.code.tolist(), FRAME["size"].tolist())
    np.testing.assert_allclose(found.prediction.astype(float), gm.load(model).predict(FRAME[["a"]]))
    assert "Wrote 60 predictions to the standard output" in result.stderr
    assert "of the standard input" in result.stderr
    options = ["--target", "y", "--drop", "code", "--drop", "size", "--gamma", "1", "--drop", "day"]
    result = run("fit", "-", *options, "--out", tmp_path / "own.gramian", given=rows)
    assert result.exit_code == 0, result.output
    result = run("report", model, "--data", "-", "--target", "y", given=rows)
    assert "R²" in result.stdout
    assert "rows × 4 columns" in run("plan", "-", "--target", "y", given=rows).stdout


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".npz"])
def test_kept_columns_stand_beside_their_predictions(suffix: str, model: Path, tmp_path: Path) -> None:
    FRAME.to_parquet(tmp_path / "rows.parquet", index=False)
    out = tmp_path / f"p{suffix}"
    result = run("predict", model, tmp_path / "rows.parquet", "--out", out, "--keep", "code", "--keep", "day")
    assert result.exit_code == 0, result.output
    readers = {".parquet": pd.read_parquet, ".npz": read_arrays}
    found = readers.get(suffix, lambda path: pd.read_csv(path, dtype={"code": str}))(out)
    assert list(found) == ["code", "day", "prediction"]
    assert list(found["code"]) == FRAME.code.tolist()
    np.testing.assert_array_equal(pd.to_datetime(found["day"]).to_numpy(), FRAME.day)


@pytest.mark.parametrize("more", [(), ("--missing", "?"), ("--missing", "")])
def test_kept_cells_come_out_as_they_came_in(more: tuple[str, ...], model: Path) -> None:
    cells = ["NA", "null", "n/a", " NA ", "007", "4.50", "-999", "?", ""]
    rows = "a,id,level\n" + "".join(f"{j},{cell},{'NA' if j else 3}\n" for j, cell in enumerate(cells))
    result = run(
        "predict", model, "-", "--out", "-", "--keep", "id", "--keep", "level", *more, given=rows.encode()
    )
    found = pd.read_csv(io.StringIO(result.stdout), dtype=str, keep_default_na=False)
    assert found["id"].tolist() == cells
    assert found["level"].tolist() == ["3", *["NA"] * 8]


def test_slips_with_pipes_are_told(model: Path, tmp_path: Path) -> None:
    clash = FRAME.assign(prediction=1.0).to_csv(index=False).encode()
    np.savez(tmp_path / "rows.npz", X=np.ones((4, 1)))
    cases: list[tuple[tuple[Any, ...], str]] = [
        (("predict", model, "-", "--out", "-", "--keep", "cod"), "Did you mean 'code'?"),
        (("predict", model, "-", "--out", "-", "--keep", "prediction"), "the name of a column of pred"),
        (("predict", model, tmp_path / "rows.npz", "--out", "-", "--keep", "a"), "names no columns to"),
        (("fit", "-", "--target", "y", "--out", "-"), "--out - is the standard output, which only predict"),
        (("report", model, "--html", "-"), "--html - is the standard output"),
    ]
    for arguments, said in cases:
        result = run(*arguments, given=clash)
        assert (result.exit_code, result.stdout) == (1, ""), arguments
        assert said in " ".join(result.stderr.split()), result.stderr
    assert "the standard input is empty" in run("plan", "-", "--target", "y", given=b"").stderr


@pytest.mark.slow
def test_a_reader_that_stops_ends_the_command_quietly(model: Path, tmp_path: Path) -> None:
    pd.DataFrame({"a": np.zeros(200_000)}).to_csv(tmp_path / "rows.csv", index=False)
    command = [sys.executable, "-m", "gramian.cli", "predict", str(model), str(tmp_path / "rows.csv")]
    with subprocess.Popen([*command, "--out", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as done:
        assert done.stdout is not None
        assert done.stderr is not None
        assert done.stdout.readline() == b'"prediction"\n'
        done.stdout.close()
        assert done.stderr.read() == b""


# ---- no command writes over a file that it reads ----------------------------------------------------

for extra in ("typer", "pyarrow", "pandas"):
    pytest.importorskip(extra)


ROWS = pd.DataFrame({"a": np.arange(40.0), "y": np.arange(40.0) % 7})


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


@pytest.fixture
def stored_model(tmp_path: Path) -> Path:
    """A model whose name would do for predictions too."""
    fitted = gm.KernelRidge(gamma=0.1).fit(ROWS[["a"]].to_numpy(), ROWS["y"].to_numpy())
    gm.save(fitted, tmp_path / "model.csv")
    return tmp_path / "model.csv"


def names_of(path: Path) -> list[Path]:
    """Return a file's own path, another spelling, a relative one, a symbolic link and a hard link."""
    folder = path.parent
    (folder / "deeper").mkdir()
    (folder / "soft.csv").symlink_to(path)
    os.link(path, folder / "hard.csv")
    relative = Path(os.path.relpath(path))
    return [path, folder / "deeper" / ".." / path.name, relative, folder / "soft.csv", folder / "hard.csv"]


def test_no_command_replaces_its_rows(rows: Path, stored_model: Path) -> None:
    before = rows.read_bytes()
    for name in names_of(rows):
        for command in (
            ("fit", rows, "--target", "y", "--out", name),
            ("predict", stored_model, rows, "--out", name),
            ("report", stored_model, "--data", rows, "--target", "y", "--html", name),
            ("compare", rows, "--target", "y", "--json", name),
        ):
            assert "is a file that this command reads, and would be written over" in bad(*command)
            assert rows.read_bytes() == before


def test_no_command_replaces_its_model(rows: Path, stored_model: Path) -> None:
    before = stored_model.read_bytes()
    assert f"--out {stored_model} is a file" in bad("predict", stored_model, rows, "--out", stored_model)
    assert f"--html {stored_model} is a file" in bad("report", stored_model, "--html", stored_model)
    assert stored_model.read_bytes() == before


def test_no_output_lands_among_the_parts_that_are_read(tmp_path: Path, stored_model: Path) -> None:
    parts = tmp_path / "rows.parquet"
    parts.mkdir()
    ROWS.to_parquet(parts / "part-0.parquet")
    (tmp_path / "alias.parquet").symlink_to(parts)
    for folder in (parts, tmp_path / "alias.parquet"):
        for out in (parts / "part-0.parquet", folder / "new.parquet"):
            said = bad("predict", stored_model, folder, "--out", out)
            assert "lies inside" in said
            assert "Pass a path outside it" in said
    assert os.listdir(parts) == ["part-0.parquet"]
    pattern = str(parts / "*.parquet")
    said = bad("fit", pattern, "--target", "y", "--out", parts / "part-0.parquet")
    assert "is a file that this command reads" in said


def test_the_targets_of_arrays_are_read_too(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.ones((20, 2)))
    np.save(tmp_path / "y.npy", np.ones(20))
    y = tmp_path / "y.npy"
    assert "would be written over" in bad("fit", tmp_path / "X.npy", "--target", y, "--out", y)


def test_an_output_that_cannot_be_written_is_refused_before_any_work(rows: Path) -> None:
    absent = rows.parent / "absent.csv"  # not looked for before the output is checked
    assert "it is a folder" in bad("fit", rows, "--target", "y", "--out", rows.parent)
    assert "does not exist. Create it first" in bad(
        "fit", absent, "--target", "y", "--out", rows.parent / "no" / "m.gramian"
    )
