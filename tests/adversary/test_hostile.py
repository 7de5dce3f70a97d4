"""Hostile inputs, wrong parameters and damaged files: some in the quick tests, all in the slow ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import gramian as gm
from adversary import damage, mutated
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

#: Pairs of input and model whose answer is not yet the promised one. Each has to fail: a pair that was mended
#: is taken out. "ask" is for rows to predict.
KNOWN: dict[str, tuple[str, ...]] = {}
#: One pair in so many is tried by the quick suite; the slow tests try all.
SHARE = 10
PAIRS = [(name, what) for name in MODELS for what in INPUTS if applies(name, what)]
FAST = "FastKernelRegressor"  # its fits take a tenth of a second or more


def tried(name: str, what: str) -> None:
    """Check a pair; a pair that is known to fail has to fail."""
    if name not in KNOWN.get(what, ()):
        try:
            answer(name, INPUTS[what])
        except Broken as error:
            raise Broken(f"{what}: {error}") from error
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
                broken.append(str(error))
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize("name", MODELS)
def test_hostile_rows_to_predict(name):
    model = clone(MODELS[name]).fit(*good(name))
    for what, bad in INPUTS.items():
        if not what.startswith(("y", "weights")) and name not in KNOWN.get(f"ask {what}", ()):
            try:
                asked(name, bad, model)
            except Broken as error:
                raise Broken(f"{what}: {error}") from error


@pytest.mark.parametrize("parameter", WRONG)
def test_wrong_parameters_are_named(parameter):
    for name, model in MODELS.items():
        if parameter in model.get_params(deep=False):
            for value in WRONG[parameter]:
                if not missing_value(parameter, value, name):
                    try:
                        wrong_parameter(name, parameter, value)
                    except Broken as error:
                        raise Broken(f"{name}, {parameter}={value!r}: {error}") from error


def failures_of(name: str, folder: Path, count: int, kinds: Sequence[damage.Damage]) -> list[str]:
    """Return what was wrong with the answers to damaged files of a model."""
    data, _ = damage.stored(name, folder)
    broken = []
    for text, bad in damage.damaged(data, 5, count, kinds):
        try:
            damage.check(name, text, bad, folder)
        except Broken as error:
            broken.append(str(error))
    return broken


@pytest.mark.parametrize("name", damage.MODELS)
def test_damaged_files_are_refused_or_answer_the_same(name, tmp_path):
    assert failures_of(name, tmp_path, 32, damage.KINDS) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", damage.MODELS)
def test_many_damaged_files(name, tmp_path):
    assert failures_of(name, tmp_path, 600, damage.KINDS) == []


def test_swapped_members_are_refused(tmp_path):
    assert [failures_of(name, tmp_path, 20, (damage.swapped,)) for name in damage.MODELS] == [[]] * 8


def broken_mutations(name: str, folder: Path, seed: int, count: int) -> list[str]:
    """Return what was wrong with the answers to mutated files of a model."""
    stored, broken = mutated.saved(name, folder), []
    for text, data in mutated.mutated(stored, seed, count):
        try:
            mutated.check(name, text, data, folder)
        except Broken as error:
            broken.append(str(error))
    return broken


@pytest.mark.parametrize("name", mutated.KINDS)
def test_mutated_files_are_refused_or_their_models_answer(name, tmp_path):
    assert broken_mutations(name, tmp_path, list(mutated.KINDS).index(name), 6) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", mutated.KINDS)
def test_many_mutated_files(name, tmp_path):
    assert broken_mutations(name, tmp_path, 1_000, 200) == []


def test_every_class_that_files_hold_is_mutated():
    fast = {"FastTabularRegressor", "FastTabularClassifier"}  # the kind "fast table"
    assert set(mutated.KNOWN) - fast <= set(mutated.KINDS)


def test_memory_beyond_the_file_is_noticed(monkeypatch, tmp_path):
    stored = mutated.saved("KernelRidge", tmp_path)
    monkeypatch.setattr(gm, "load", lambda path: [None for _ in (np.zeros(1 << 24),)])
    with pytest.raises(Broken, match=r"134,\d+,\d+ bytes for a file of \d,\d+; answers"):
        mutated.check("KernelRidge", "nothing changed", stored.packed(), tmp_path)


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
