"""Model files that somebody made on purpose: refused before anything is computed from their numbers."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from adversary.mutated import Stored
from test_model_file_damage import changed, learned, put

import gramian as gm
from gramian.exceptions import ModelFileError, printable
from gramian.model_file import describe
from gramian.model_file.records import PartRecords

X = np.random.default_rng(0).standard_normal((60, 3))
Y = np.sin(X[:, 0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.gramian"


def peak(load: Any) -> int:
    tracemalloc.start()
    try:
        load()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def refused(path: Path, edit: Any, said: str) -> None:
    """Check that an edited file is refused with a text, and within a few megabytes."""
    changed(path, edit)

    def load() -> None:
        with pytest.raises(ModelFileError, match=said):
            gm.load(path)

    assert peak(load) < (8 << 20) + 40 * path.stat().st_size


@pytest.mark.parametrize("shape", [(0, 2**27), (2**27, 0), (0, 2**50)])
def test_an_empty_array_cannot_stand_for_gigabytes(shape: tuple[int, int], path: Path) -> None:
    gm.save(gm.KernelRidge(random_state=0).fit(X, Y), path)

    def edit(members: Any, header: Any) -> None:
        centers = learned(header)["predictor_"]["parts"]["partition"]["parts"]["centers"]["array"]
        put(members, header, centers, np.zeros(shape))

    refused(path, edit, "which is more than the file can hold")


@pytest.mark.parametrize("count", [2**27, 2**50, -1, 0, 1.5, "3", True])
def test_a_number_of_features_is_checked_before_it_is_used(count: Any, path: Path) -> None:
    gm.save(gm.KernelRidge(random_state=0).fit(X, Y), path)
    refused(
        path, lambda m, h: h["estimator"].update(n_features=count), "features|columns|do not make a model"
    )


@pytest.mark.parametrize("factor", [-1, 5, 10**6])
def test_monomials_come_after_their_factors(factor: int, path: Path) -> None:
    model = gm.DCPredRegressor(n_leaves=2, n_landmarks=4, n_pseudo=6, random_state=0).fit(X, Y)
    gm.save(model, path)

    def edit(members: Any, header: Any) -> None:
        leaves = learned(header)["model_"]["parts"]["leaves"]["tuple"]
        left = leaves[0]["parts"]["columns"]["parts"]["left"]["array"]
        put(members, header, left, np.full(6, factor))

    refused(path, edit, "a factor that is no column before its own")


def test_arrays_that_are_used_again_and_again_are_refused() -> None:
    values = PartRecords({"a": np.zeros(1 << 14)}, 1_000)
    few, many = ({"list": [{"array": "a"}] * count} for count in (200, 300))  # of 128 kB each
    assert len(values.read(few)) == 200
    with pytest.raises(ModelFileError, match="use the same arrays over and over, in all more than 32 times"):
        values.read(many)


def test_sizes_in_the_directory_are_checked_before_the_description_is_read(path: Path) -> None:
    gm.save(gm.KernelRidge(random_state=0).fit(X, Y), path)
    data = bytearray(path.read_bytes())
    entry = data.rindex(b"model.json") - 46
    data[entry + 20 : entry + 28] = (2**31).to_bytes(4, "little") * 2
    path.write_bytes(data)

    def load() -> None:
        for read in (gm.load, describe):
            with pytest.raises(ModelFileError, match=r"its members have \d+ bytes, but the file has"):
                read(path)

    assert peak(load) < 1 << 20


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "9" * 5_000])
def test_numbers_that_are_not_json_are_refused(number: str, path: Path) -> None:
    gm.save(gm.KernelRidge(random_state=0).fit(X, Y), path)

    def edit(members: Any, header: Any) -> None:
        header["estimator"]["params"]["alpha"] = "MARK"

    stored = Stored.of(changed(path, edit).read_bytes())
    path.write_bytes(stored.packed(json.dumps(stored.header).replace('"MARK"', number)))
    for read in (gm.load, describe):
        with pytest.raises(ModelFileError, match=r"model.json is not JSON"):
            read(path)


def test_types_of_parts_are_named(path: Path) -> None:
    gm.save(gm.KernelRidge(random_state=0).fit(X, Y), path)

    def text(members: Any, header: Any) -> None:
        learned(header)["predictor_"]["parts"]["n_outputs"] = "1"

    refused(path, text, r"'n_outputs' of a Predictor is '1' \(str\); expected int")


def test_nan_in_what_predicts_is_refused(path: Path) -> None:
    gm.save(gm.KernelRidge(random_state=0).fit(X, Y), path)

    def edit(members: Any, header: Any) -> None:
        put(members, header, learned(header)["intercept_"]["array"], np.array([np.nan]))

    refused(path, edit, "'intercept_' of a KernelRidge holds NaN or infinity")


def test_sparse_rows_stay_within_their_columns(path: Path) -> None:
    rows = sp.csr_array(X * (X > 0.0))
    gm.save(gm.KernelRidge(approximation=gm.Nystrom(rank=5), random_state=0).fit(rows, Y), path)

    def found(header: Any) -> Any:
        return learned(header)["predictor_"]["parts"]["landmarks"]["tuple"][0]

    whole = path.read_bytes()
    for shape in ([5, 2**50], [2**40, 3], [5, 3.0], [5, -3]):
        path.write_bytes(whole)
        refused(path, lambda m, h, s=shape: found(h).update(shape=s), "sparse rows have|'indptr' has shape")


def test_a_file_without_notes_loads(path: Path) -> None:
    model = gm.KernelRidge(random_state=0).fit(X, Y)
    gm.save(model, path, notes={"task": "regression"})
    changed(path, lambda m, h: h.pop("notes"))
    assert describe(path)["notes"] == {}
    np.testing.assert_array_equal(gm.load(path).predict(X), model.predict(X))
    for bad in (3, ["a"], {"a": 1}):
        changed(path, lambda m, h, b=bad: h.update(notes=b))
        with pytest.raises(ModelFileError, match="its notes are not texts by name"):
            describe(path)


def test_errors_and_summaries_do_not_steer_the_terminal(path: Path) -> None:
    assert printable("\x1b[31mred\u202e\x07") == "\\x1b[31mred\\u202e\\x07"
    assert printable("95\u00a0%\n\u00b5s") == "95\u00a0%\n\u00b5s"
    gm.save(gm.KernelRidge(random_state=0).fit(X, Y), path)
    changed(path, lambda m, h: h.update(version=9, library="\x1b[2J"))
    with pytest.raises(ModelFileError) as caught:
        gm.load(path)
    assert "\x1b" not in str(caught.value)
    assert "\\x1b[2J" in str(caught.value)
