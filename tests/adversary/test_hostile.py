"""Hostile inputs, wrong parameters and damaged files: some in the quick tests, all in the slow ones."""

from __future__ import annotations

import os

import numpy as np
import pytest
from sklearn.base import clone

import gramian as gm
from adversary import damage
from adversary.hostile import (
    INPUTS,
    MODELS,
    WRONG,
    answer,
    applies,
    asked,
    good,
    missing_value,
    wrong_parameter,
)
from adversary.trial import Broken

#: Answers that are being mended: (input or parameter, model or None for all), and what is wrong.
KNOWN: dict[tuple[str, str | None], str] = {}
#: One pair in so many is tried by the quick suite; the slow tests try all.
SHARE = 10
PAIRS = [(name, what) for name in MODELS for what in INPUTS if applies(name, what)]
FAST = "FastKernelRegressor"  # its fits take a tenth of a second or more


def reason(what: str, name: str) -> str | None:
    """Return what is known to be wrong with a pair."""
    return KNOWN.get((what, name)) or KNOWN.get((what, None))


def tried(name: str, what: str) -> None:
    """Check a pair; a pair that is known to fail has to fail."""
    known = reason(what, name)
    if known is None:
        answer(name, INPUTS[what])
        return
    with pytest.raises(Broken):
        answer(name, INPUTS[what])


@pytest.mark.parametrize("name", [name for name in MODELS if name != FAST])
def test_some_hostile_inputs(name):
    own = list(MODELS).index(name)
    for number, (other, what) in enumerate(PAIRS):
        if other == name and (number + own) % SHARE == 0:
            tried(name, what)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_all_hostile_inputs(name):
    broken = []
    for other, what in PAIRS:
        if other == name:
            try:
                tried(name, what)
            except (Broken, pytest.fail.Exception) as error:
                broken.append(f"{what}: {error}")
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("name", MODELS)
def test_hostile_rows_to_predict(name):
    model = clone(MODELS[name]).fit(*good(name))
    for what, bad in INPUTS.items():
        if not what.startswith(("y", "weights")) and reason(f"ask {what}", name) is None:
            try:
                asked(name, bad, model)
            except Broken as error:
                raise Broken(f"{what}: {error}") from error


@pytest.mark.parametrize("parameter", WRONG)
def test_wrong_parameters_are_named(parameter):
    for name, model in MODELS.items():
        if parameter in model.get_params(deep=False):
            for value in WRONG[parameter]:
                if (
                    not missing_value(parameter, value, name)
                    and reason(f"{parameter}={value!r}", name) is None
                ):
                    try:
                        wrong_parameter(name, parameter, value)
                    except Broken as error:
                        raise Broken(f"{name}, {parameter}={value!r}: {error}") from error


@pytest.mark.parametrize("name", damage.MODELS)
def test_damaged_files_are_refused_or_answer_the_same(name, tmp_path):
    data, _ = damage.stored(name, tmp_path)
    count = int(os.environ.get("ADVERSARY_DAMAGES", "40"))
    broken = []
    for text, bad in damage.damaged(data, 5, count):
        try:
            damage.check(name, text, bad, tmp_path)
        except Broken as error:
            broken.append(str(error))
    assert not broken, "\n".join(broken)


def test_errors_of_other_libraries_are_noticed(monkeypatch):
    monkeypatch.setattr(
        gm.KernelRidge, "fit", lambda self, X, y=None, sample_weight=None: np.linalg.inv(np.zeros((2, 2)))
    )
    with pytest.raises(Broken, match="LinAlgError"):
        answer("KernelRidge", INPUTS["NaN"])


def test_silent_nan_is_noticed(monkeypatch):
    monkeypatch.setattr(gm.KernelRidge, "predict", lambda self, X: np.full(len(X), np.nan))
    with pytest.raises(Broken, match="not finite, without a warning"):
        answer("KernelRidge", INPUTS["lists"])
