"""A fitted teacher gets its columns by name, whatever table holds them and in whatever order."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.svm import SVC

import gramian as gm

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

SIZES = {"n_levels": 0, "n_units": 4, "n_directions": 2, "random_state": 0}
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(200, 3)), columns=list("abc"))
PERMUTED = FRAME[["c", "a", "b"]]
Y = 2 * FRAME.a + FRAME.b
LABELS = np.where(Y > 0, "u", "v")
TABLES = {
    "pandas": PERMUTED,
    "lazy": pl.from_pandas(PERMUTED).lazy(),
    "arrow": pa.Table.from_pandas(PERMUTED, preserve_index=False),
    "records": PERMUTED.to_dict("records"),
    "source": gm.open_data(PERMUTED),
}
TEACHERS = {
    "ridge": gm.KernelRidge(gamma=0.1, alpha=0.01).fit(FRAME, Y),
    "forest": RandomForestRegressor(20, random_state=0).fit(FRAME, Y),
    "svc": SVC().fit(FRAME, LABELS),
}


def answers(teacher):
    return LABELS if teacher == "svc" else Y


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("teacher", TEACHERS)
def test_compress(teacher, kind):
    fast = gm.compress(TEACHERS[teacher], TABLES[kind], **SIZES)
    assert fast.feature_names_in_.tolist() == ["a", "b", "c"]
    assert fast.score(FRAME, answers(teacher)) > 0.9
    assert fast.score(TABLES[kind], answers(teacher)) > 0.9


# scikit-learn's models take no row sources: they get arrays, and say that these have no names.
@pytest.mark.filterwarnings("ignore:X does not have valid feature names:UserWarning:sklearn")
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("teacher", TEACHERS)
def test_the_parameter_teacher(teacher, kind):
    fast = gm.FastKernelClassifier if teacher == "svc" else gm.FastKernelRegressor
    model = fast(TEACHERS[teacher], learn="teacher", **SIZES).fit(TABLES[kind], answers(teacher))
    assert model.feature_names_in_.tolist() == ["c", "a", "b"]
    assert model.score(FRAME, answers(teacher)) > 0.9


def test_compress_refuses_what_the_teacher_was_not_trained_on():
    with pytest.raises(gm.InputError, match="X has a column 'id', which the training rows did not have"):
        gm.compress(TEACHERS["ridge"], FRAME.assign(id=1), **SIZES)
