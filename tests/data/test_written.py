"""Targets of text that a person reads as numbers: each form ends in an error with the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import gramian as gm

for extra in ("typer", "pyarrow", "pandas"):
    pytest.importorskip(extra)

import pandas as pd
from typer.testing import CliRunner

from gramian.cli.app import app
from gramian.data.written import written_kind

#: scikit-learn's words, which come before the error.
pytestmark = pytest.mark.filterwarnings("ignore:The number of unique classes")
N = 120
X = np.random.default_rng(0).normal(size=(N, 2))
#: Amounts of several sizes, all different.
VALUES = 50.0 * np.exp(3.0 + 1.5 * X[:, 0])
GERMAN = str.maketrans(",.", ".,")
FORMS: dict[str, Callable[[float], str]] = {
    "dollars": "${:,.2f}".format,
    "losses in brackets": "(${:,.2f})".format,
    "US dollars": "US$ {:.2f}".format,
    "code in front": "CHF {:.2f}".format,
    "euros behind": "{:.2f} €".format,
    "per cent": "{:.3f}%".format,
    "German": lambda value: f"{value:,.2f}".translate(GERMAN),
    "German euros": lambda value: f"{value:,.2f} €".translate(GERMAN),
    "spaces": lambda value: f"{value:,.1f}".replace(",", " "),
    "narrow spaces": lambda value: f"{value:,.1f} kg".replace(",", "\u202f"),
    "Swiss": lambda value: f"{value:,.2f}".replace(",", "'"),
    "degrees": "−{:.2f} °C".format,
    "thousands": "{:.2f}k".format,
    "times of day": lambda value: f"{int(value) % 24}:{int(7 * value) % 60:02}",
    "with seconds": lambda value: f"{int(value) % 12}:{int(7 * value) % 60:02}:{int(value) % 60:02} pm",
}


@pytest.mark.parametrize("form", FORMS)
def test_no_row_gets_a_class_of_its_own(form: str, tmp_path: Path) -> None:
    text = [FORMS[form](value) for value in VALUES]
    kind = "times of day" if FORMS[form] in (FORMS["times of day"], FORMS["with seconds"]) else "numbers"
    cure = {"numbers": "Store plain numbers, such as 1234.5", "times of day": "8.5 for 08:30"}[kind]
    pd.DataFrame({"x": X[:, 0], "y": text}).to_csv(tmp_path / "t.csv", index=False, sep=";")
    result = CliRunner().invoke(app, ["plan", str(tmp_path / "t.csv"), "--target", "y"])
    assert result.exit_code == 1, result.stdout
    said = " ".join(result.stderr.split())
    assert f"They look like {kind}, such as" in said, said
    assert cure in said
    for model in (gm.TabularClassifier(), gm.KernelRidgeClassifier(), gm.TabularRegressor()):
        with pytest.raises(gm.InputError, match=f"look like {kind}, such as .*{cure}"):
            model.fit(X, np.array(text, object))


def test_ids_are_no_classes_by_themselves(tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": X[:, 0], "y": [f"K{i:04}" for i in range(N)]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    command = ["plan", str(tmp_path / "t.csv"), "--target", "y"]
    result = CliRunner().invoke(app, command)
    said = " ".join(result.stderr.split())
    assert "120 different values in 120 rows. Nearly every row, such as 'K0000', is a class" in said
    assert "Pass another --target. If each value is a class, pass --task classification." in said
    assert CliRunner().invoke(app, [*command, "--task", "classification"]).exit_code == 0


def test_shares_that_repeat_are_classes() -> None:
    rates = np.array(["5 %", "10 %", "20 %"])[np.arange(N) % 3]
    assert len(gm.KernelRidgeClassifier().fit(X, rates).classes_) == 3


@pytest.mark.parametrize(
    "text",
    ["A12", "12B", "007", "1.2.3", "10.0.0.1", "2024-01-05", "05/01/2024", "12345-678", "12 Baker St 1"],
)
def test_codes_and_dates_are_no_written_numbers(text: str) -> None:
    assert written_kind([text]) == ""
    assert written_kind(["$5", text]) == ""
    assert written_kind(["$5", "n/a", ""]) == "numbers"


@pytest.mark.parametrize(
    ("last", "clear"), [("7,125", False), ("7,25", True), ("0,125", True), ("1234,125", True)]
)
def test_a_comma_may_group_digits(last: str, clear: bool, tmp_path: Path) -> None:
    """What is ten thousand must not become ten by the advice."""
    cells = [f"10,{i}" for i in range(100, 160)]
    pd.DataFrame({"x": range(61), "y": [*cells, last]}).to_csv(tmp_path / "t.csv", index=False, sep=";")
    with pytest.raises(gm.InputError, match="holds numbers with a comma, such as") as caught:
        gm.open_data(tmp_path / "t.csv", target="y")
    said = str(caught.value)
    assert ("decimal=','" in said) == clear
    assert ("If the comma groups digits, write 10100 (in Python: " in said) != clear
    assert f"such as {last if clear else '10,100'!r}" in said
