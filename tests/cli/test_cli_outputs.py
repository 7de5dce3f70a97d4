"""No command writes over a file that it reads, under whatever name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gramian as gm

for extra in ("typer", "pyarrow", "pandas"):
    pytest.importorskip(extra)

import pandas as pd
from typer.testing import CliRunner

from gramian.cli.app import app

ROWS = pd.DataFrame({"a": np.arange(40.0), "y": np.arange(40.0) % 7})


def refused(*arguments: Any) -> str:
    """Run a command that must end with an error and return its text."""
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == 1, result.output
    return " ".join(result.stderr.split())


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


@pytest.fixture
def model(tmp_path: Path) -> Path:
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


def test_no_command_replaces_its_rows(rows: Path, model: Path) -> None:
    before = rows.read_bytes()
    for name in names_of(rows):
        for command in (
            ("fit", rows, "--target", "y", "--out", name),
            ("predict", model, rows, "--out", name),
            ("report", model, "--data", rows, "--target", "y", "--html", name),
            ("compare", rows, "--target", "y", "--json", name),
        ):
            assert "is a file that this command reads, and would be written over" in refused(*command)
            assert rows.read_bytes() == before


def test_no_command_replaces_its_model(rows: Path, model: Path) -> None:
    before = model.read_bytes()
    assert f"--out {model} is a file" in refused("predict", model, rows, "--out", model)
    assert f"--html {model} is a file" in refused("report", model, "--html", model)
    assert model.read_bytes() == before


def test_no_output_lands_among_the_parts_that_are_read(tmp_path: Path, model: Path) -> None:
    parts = tmp_path / "rows.parquet"
    parts.mkdir()
    ROWS.to_parquet(parts / "part-0.parquet")
    (tmp_path / "alias.parquet").symlink_to(parts)
    for folder in (parts, tmp_path / "alias.parquet"):
        for out in (parts / "part-0.parquet", folder / "new.parquet"):
            said = refused("predict", model, folder, "--out", out)
            assert "lies inside" in said
            assert "Pass a path outside it" in said
    assert os.listdir(parts) == ["part-0.parquet"]
    pattern = str(parts / "*.parquet")
    said = refused("fit", pattern, "--target", "y", "--out", parts / "part-0.parquet")
    assert "is a file that this command reads" in said


def test_the_targets_of_arrays_are_read_too(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", np.ones((20, 2)))
    np.save(tmp_path / "y.npy", np.ones(20))
    y = tmp_path / "y.npy"
    assert "would be written over" in refused("fit", tmp_path / "X.npy", "--target", y, "--out", y)


def test_an_output_that_cannot_be_written_is_refused_before_any_work(rows: Path) -> None:
    absent = rows.parent / "absent.csv"  # not looked for before the output is checked
    assert "it is a folder" in refused("fit", rows, "--target", "y", "--out", rows.parent)
    assert "does not exist. Create it first" in refused(
        "fit", absent, "--target", "y", "--out", rows.parent / "no" / "m.gramian"
    )
