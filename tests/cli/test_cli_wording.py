"""Messages name options; unused columns are the last line, or an error where they are most."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Annotated, get_origin, get_type_hints

import numpy as np
import pytest

for extra in ("typer", "pyarrow", "pandas"):
    pytest.importorskip(extra)

import pandas as pd
from typer.testing import CliRunner

from gramian.cli.app import app
from gramian.cli.options import TrainingOptions
from gramian.cli.report import OPTIONS, in_options

N = 60
X = np.random.default_rng(0).standard_normal(N)
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
