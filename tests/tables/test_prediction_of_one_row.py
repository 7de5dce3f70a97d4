"""Predictions of single rows and of many: the same values, and each row is encoded once."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest

import gramian as gm
from gramian.engine import Engine
from gramian.exact.predictor import ExactPredictor
from gramian.exceptions import InputError
from gramian.tables.boosting import trees as boosting_trees
from gramian.tables.boosting.trees import Trees
from gramian.tables.columns import TableColumns

pandas = pytest.importorskip("pandas")

QUICK: dict[str, Any] = {"kernel": ("laplacian", "gaussian"), "scaling": "standard", "random_state": 0}


def frame_and_target(n: int = 240) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "area": rng.random(n),
            "town": pandas.Categorical(rng.choice(["Bath", "Hull", "York"], n)),
            "old": rng.random(n) < 0.5,
            "floor": np.where(np.arange(n) % 9 == 0, np.nan, rng.integers(0, 4, n)),
        }
    )
    y = np.sin(5 * frame["area"]) + (frame["town"] == "Hull") + 0.05 * rng.standard_normal(n)
    return frame, y.to_numpy()


@pytest.fixture(scope="module")
def regressor() -> Any:
    frame, y = frame_and_target()
    return gm.TabularRegressor(**QUICK).fit(frame, y)


@pytest.mark.parametrize("x", [5, None, np.array(3.0), "Bath", b"Bath", {0.5, "Hull", True, 2.0}])
def test_what_is_no_row_is_refused(regressor: Any, x: Any) -> None:
    with pytest.raises(InputError, match=r"^x=.* is no row. Pass its values in the order of"):
        regressor.predict_one(x)


def test_quantiles_that_are_no_collection_are_refused(regressor: Any) -> None:
    with pytest.raises(InputError, match=r"quantiles=array.0.5. must be a list, tuple or array"):
        regressor.predict_quantiles(frame_and_target()[0], np.array(0.5))


def test_one_row_has_the_value_that_it_has_among_many(regressor: Any) -> None:
    frame, _ = frame_and_target()
    many = regressor.predict(frame)
    one = np.concatenate([regressor.predict(frame.iloc[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(one, many[:20], rtol=1e-5)
    for i in (0, 5, 9):
        row = frame.iloc[i]
        values = [row[name] for name in frame.columns]
        for x in (values, tuple(values), dict(zip(frame.columns, values, strict=True)), row):
            np.testing.assert_allclose(regressor.predict_one(x), many[i], rtol=1e-5)
        turned = dict(reversed(list(zip(frame.columns, values, strict=True))))
        np.testing.assert_allclose(regressor.predict_one(turned), many[i], rtol=1e-5)
    gone = dict(zip(frame.columns, frame.iloc[0], strict=True)) | {"floor": None, "town": "York"}
    again = frame.iloc[:1].assign(floor=np.nan, town="York")
    np.testing.assert_allclose(regressor.predict_one(gone), regressor.predict(again)[0], rtol=1e-5)


def test_one_row_of_a_classifier_and_of_several_outputs() -> None:
    frame, y = frame_and_target()
    rows = frame[["area", "floor"]].to_numpy()
    labels = np.where(y > 1.0, "high", "low")
    classifier = gm.TabularClassifier(**QUICK, include=()).fit(rows, labels)
    assert classifier.predict_one(rows[3]) == classifier.predict(rows[3:4])[0]
    several = gm.TabularRegressor(**QUICK, include=()).fit(rows, np.column_stack([y, -y]))
    np.testing.assert_allclose(several.predict_one(rows[3]), several.predict(rows[3:4])[0])


def test_what_is_no_row_of_the_table_is_refused(regressor: Any) -> None:
    with pytest.raises(InputError, match="x has 2 values; expected 4, one for each column"):
        regressor.predict_one([1.0, "Bath"])
    with pytest.raises(InputError, match="town"):
        regressor.predict_one({"area": 1.0, "old": True, "floor": 2.0})
    with pytest.raises(InputError, match="Column 'area' held numbers during fit and now holds text"):
        regressor.predict_one(["wide", "Bath", True, 1.0])


def test_rows_are_encoded_once_for_all_parts_of_a_model(
    regressor: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = TableColumns.encode_block

    def encode(self: Any, block: Any, order: Any, rows: Any, out: Any) -> None:
        asked.append(len(out))
        real(self, block, order, rows, out)

    frame, _ = frame_and_target()
    wanted = regressor.predict(frame)
    monkeypatch.setattr(TableColumns, "encode_block", encode)
    np.testing.assert_array_equal(regressor.predict(frame), wanted)
    assert asked == [len(frame)]
    # Rows that are many are encoded as they are read.
    monkeypatch.setattr("gramian.tables.encoded.ONCE_NUMBERS", 10)
    np.testing.assert_allclose(regressor.predict(frame), wanted, rtol=1e-5)
    assert sum(asked) > len(frame)


def test_prepared_parts_are_kept_but_not_stored() -> None:
    rng = np.random.default_rng(0)
    X, c = rng.standard_normal((1_500, 3)), rng.standard_normal((1_500, 2))
    predictor = ExactPredictor(gm.Laplacian(2.0), X, c, np.dtype(np.float64))
    first = predictor.chunk(X[:7], Engine(1))
    np.testing.assert_allclose(first, gm.Laplacian(2.0)(X[:7], X) @ c)
    assert len(predictor._prepared) == 2
    np.testing.assert_array_equal(predictor.chunk(X[:7], Engine(1)), first)
    again = pickle.loads(pickle.dumps(predictor))
    assert "_prepared" not in vars(again)
    np.testing.assert_array_equal(again.chunk(X[:7], Engine(1)), first)
    assert "_prepared" not in vars(predictor.with_kernel(gm.Gaussian(1.0)))


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
def test_a_single_task_of_an_iterator_runs_in_the_calling_thread(n_jobs: int) -> None:
    names = Engine(n_jobs).map(lambda _: threading.current_thread().name, (each for each in range(1)))
    assert names == [threading.current_thread().name]
    assert Engine(n_jobs).map(abs, (each for each in range(-3, 0))) == [3, 2, 1]
    assert Engine(n_jobs).map(abs, iter([])) == []


def test_few_rows_are_led_through_trees_to_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trees of three outputs, with thresholds and sets of codes, against the tables of many rows."""
    rng = np.random.default_rng(0)
    columns, numbers, sets, lefts, lengths = [], [], [], [], []
    for _ in range(90):
        nodes = grown(rng, 8)
        lengths.append(len(nodes))
        for column in nodes:
            coded = column == 2
            columns.append(column)
            sets.append(len(lefts) if coded else -1)
            numbers.append(rng.standard_normal())
            if coded:
                lefts.append(rng.integers(0, 2**32, 8, dtype=np.uint32))
    trees = Trees(
        np.array(columns),
        np.array(numbers),
        np.array(sets),
        np.array(lefts, np.uint32).reshape(-1, 8),
        np.array(lengths),
        rng.integers(0, 3, 90),
        rng.standard_normal(3),
    )
    rows = np.column_stack([rng.standard_normal((200, 2)), rng.integers(-1, 300, 200)])
    monkeypatch.setattr(boosting_trees, "at_hand", lambda steps: False)
    many = trees.predict(rows)
    for count in (1, 3, boosting_trees.FEW_ROWS):
        np.testing.assert_array_equal(trees.predict(rows[:count]), many[:count])
    monkeypatch.setattr(boosting_trees, "FEW_ROWS", 200)
    np.testing.assert_array_equal(trees.predict(rows), many)
    assert {"_chunks", "rights"} <= set(vars(trees))
    assert not {"_chunks", "rights"} & set(vars(pickle.loads(pickle.dumps(trees))))


def grown(rng: np.random.Generator, leaves: int) -> list[int]:
    """Return the columns of a random tree, a node, what lies to its left, what lies to its right."""
    if leaves == 1:
        return [-1]
    left = int(rng.integers(1, leaves))
    return [int(rng.integers(0, 3)), *grown(rng, left), *grown(rng, leaves - left)]


def test_a_row_in_the_wrong_form_says_what_to_pass(regressor: Any) -> None:
    frame, _ = frame_and_target(10)
    row = frame.iloc[0].to_dict()
    with pytest.raises(InputError, match=r"X has type dict.*pass \[X\] if it is one row, or pandas\.DataFr"):
        regressor.predict(row)
    assert regressor.predict([row])[0] == regressor.predict_one(row)
    with pytest.raises(InputError, match=r"x is a frame; expected one row\. Pass x to predict, or a row"):
        regressor.predict_one(frame[:1])
    with pytest.raises(InputError, match=r"X has type str.* Read a file with gramian\.open_data"):
        regressor.predict("rows.csv")
    with pytest.raises(InputError, match=r"Pass one list for each row: \[\[1, 'a'\]\] for a single row"):
        regressor.predict(frame.iloc[0].tolist())
