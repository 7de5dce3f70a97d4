"""``score(source)`` takes the target of ``open_data(..., target=...)`` in every estimator with a score."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import gramian as gm
from gramian.exceptions import InputError

FAST = {"n_levels": 0, "n_units": 4, "n_directions": 2, "random_state": 0}
REGRESSORS = [
    gm.KernelRidge(gamma=3.0),
    gm.KernelRidgeCV(gammas=[1.0, 3.0]),
    gm.KernelSVR(),
    gm.GaussianProcessRegressor(random_state=0),
    gm.DCPredRegressor(n_levels=1, random_state=0),
    gm.FastKernelRegressor(**FAST),
    gm.TabularRegressor(kernel="gaussian", metric=None, random_state=0),
]
CLASSIFIERS = [
    gm.KernelRidgeClassifier(gamma=3.0),
    gm.KernelSVC(),
    gm.KernelLogisticRegression(),
    gm.DCSVC(random_state=0),
    gm.DCPredClassifier(n_levels=1, random_state=0),
    gm.FastKernelClassifier(**FAST),
    gm.TabularClassifier(kernel="gaussian", metric=None, random_state=0),
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows, and a source of them, with targets that are numbers or labels."""
    rng = np.random.default_rng(0)
    X = rng.random((150, 3))
    y = np.sin(4 * X[:, 0])
    folder = tmp_path_factory.mktemp("sources")
    found = {}
    for name, target in (("numbers", y), ("labels", np.where(y > 0.5, "up", "down"))):
        np.savez(folder / f"{name}.npz", X=X, y=target)
        found[name] = X, target, gm.open_data(folder / f"{name}.npz", target="y")
    return found


@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=lambda m: type(m).__name__)
def test_a_source_is_scored_by_its_own_target(rows, model):
    X, y, source = rows["labels" if model in CLASSIFIERS else "numbers"]
    model.fit(X, y)
    expected = model.score(X, y)
    assert model.score(source) == pytest.approx(expected, abs=1e-6)
    assert model.score(source, y) == model.score(source)
    weights = np.arange(150.0)
    assert model.score(source, sample_weight=weights) == pytest.approx(
        model.score(X, y, sample_weight=weights), abs=1e-6
    )
    with pytest.raises(InputError, match="requires y to be passed"):
        model.score(X)


def test_compressed_models_score_sources_too(rows):
    X, y, source = rows["numbers"]
    fast = gm.compress(REGRESSORS[0].fit(X, y), X, **FAST)
    assert fast.score(source) == pytest.approx(fast.score(X, y), abs=1e-6)
    table = REGRESSORS[-1].fit(X, y).compress(X, n_levels=0, n_units=4, n_directions=2)
    assert table.score(source) == pytest.approx(table.score(X, y), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("model", REGRESSORS + CLASSIFIERS, ids=lambda m: type(m).__name__)
def test_a_source_is_fitted_by_its_own_target(rows, model):
    X, y, source = rows["labels" if model in CLASSIFIERS else "numbers"]
    expected = clone(model).fit(source, y).predict(X)
    assert (clone(model).fit(source).predict(X) == expected).all()
    with pytest.raises(InputError, match="requires y to be passed"):
        clone(model).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize("given", [True, False], ids=["targets", "no targets"])
def test_models_of_other_libraries_and_functions_are_compressed_on_sources(rows, given):
    X, y, source = rows["numbers"]
    pipeline = make_pipeline(StandardScaler(), SVR()).fit(X, y)
    for teacher in (SVR().fit(X, y), pipeline, lambda points: points[:, 0]):
        found = [gm.compress(teacher, one, y if given else None, **FAST) for one in (source, X)]
        assert (found[0].predict(X) == found[1].predict(X)).all()
