"""Fitted estimators show what they have made, below scikit-learn's diagram; nothing computes or raises."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from html_page import Page, told
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian as gm
from gramian.approximations.methods import METHODS
from gramian.estimator.base import KernelEstimator
from gramian.exceptions import AccuracyWarning
from gramian.solvers.solution import Status

RNG = np.random.default_rng(0)
X = RNG.random((120, 3))
Y = np.sin(5 * X[:, 0])
LABELS = np.where(Y > 0.3, "<b>yes</b>", "no")

REGRESSORS = [
    gm.KernelRidge(0.1, gamma=3.0),
    gm.KernelRidge(0.1, gamma=3.0, approximation="exact"),
    gm.KernelRidge(0.1, gamma=3.0, approximation=gm.MultiResolution(root_rank=20, rank=5, n_blocks=3)),
    gm.KernelRidgeCV(),
    gm.KernelSVR(gamma=3.0, loss="squared_epsilon_insensitive"),
    gm.GaussianProcessRegressor(max_iter=20),
    gm.FastKernelRegressor(n_levels=1, n_units=2, n_directions=2, learn="labels"),
]
CLASSIFIERS = [
    gm.KernelRidgeClassifier(gamma=3.0),
    gm.KernelSVC(gamma=3.0),
    gm.KernelLogisticRegression(gamma=3.0),
    gm.DCSVC(gamma=3.0),
    gm.DCPredClassifier(gamma=3.0, n_leaves=3),
]
MAPS = [gm.KernelPCA(n_components=3, gamma=3.0), gm.Nystrom(rank=9), gm.MEKA(rank=5, n_blocks=3)]
ALL = REGRESSORS + CLASSIFIERS + MAPS


def fitted(model):
    # Of what a fit warns about other tests speak.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AccuracyWarning)
        return clone(model).fit(X, LABELS if model in CLASSIFIERS else Y)


def below(html):
    """Return what is shown below the diagram."""
    return html[html.index('<div class="gramian-summary">') :]


@pytest.mark.parametrize("model", ALL, ids=lambda m: type(m).__name__)
def test_a_fitted_estimator_shows_diagram_and_summary(model):
    assert "sk-top-container" in model._repr_html_()
    assert "gramian-summary" not in model._repr_html_()

    model = fitted(model)
    before = {name: id(value) for name, value in vars(model).items()}
    found = model._repr_mimebundle_()["text/html"]
    assert found.count("gramian-summary") == model._repr_html_().count("gramian-summary") > 1
    assert "sk-top-container" in found
    page = Page(below(found))
    page.assert_self_contained()
    assert type(model).__name__ in page.text
    assert "3 features" in page.text
    assert "Parameters" in page.text
    assert type(model).__name__ in told(model)
    assert {name: id(value) for name, value in vars(model).items()} == before


@pytest.mark.parametrize("kind", list(dict.fromkeys(METHODS.values())), ids=lambda k: k.__name__)
def test_every_approximation_says_bytes_and_rank(kind):
    defaults = {name: 6 for name in ("rank", "n_blocks", "root_rank") if name in kind().get_params()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(**defaults).fit(X)
    facts = dict(model.summary().facts)
    assert facts["trained on"] == "120 rows × 3 features"
    assert facts["rank"].startswith(f"{model.rank_:,} ")
    assert "of K's 115 kB" in facts["memory"] or "of K's 57.6 kB" in facts["memory"]
    assert "report(X)" in facts["error"]


def test_names_from_the_data_are_escaped():
    found = below(fitted(CLASSIFIERS[0])._repr_html_())
    assert "<b>yes</b>" not in found
    assert "classes 2: <b>yes</b>, no" in Page(found).text


def test_pipelines_show_their_diagram():
    pipeline = make_pipeline(StandardScaler(), gm.MEKA(rank=4, n_blocks=2), gm.KernelRidge(gamma=3.0))
    before = pipeline._repr_html_()
    after = pipeline.fit(X, Y)._repr_html_()
    for found in (before, after):
        assert "sk-estimator" in found
        assert "MEKA" in found


def test_showing_runs_no_prediction(monkeypatch):
    model = fitted(REGRESSORS[-1])

    def refused(*_):
        raise AssertionError("predictions were timed")

    monkeypatch.setattr("gramian.fast.base.measure", refused)
    assert "gramian-summary" in model._repr_html_()
    make_pipeline(StandardScaler(), model)._repr_html_()


def test_showing_hundreds_of_blocks_reads_no_block(monkeypatch):
    rows = np.random.default_rng(0).random((3000, 2))
    model = gm.KernelRidge(approximation=gm.MultiResolution(root_rank=10, rank=3, n_blocks=200), gamma=50.0)
    model.fit(rows, rows[:, 0])
    monkeypatch.setattr(type(model.predictor_), "__repr__", None)
    assert "200" in Page(below(model._repr_html_())).text
    assert [len(sizes) for _, sizes in model._evidence().blocks] == [1, 200]


def test_what_cannot_be_summarised_is_shown_with_the_reason(monkeypatch):
    model = fitted(REGRESSORS[0])

    def broken(_):
        raise ZeroDivisionError("by <zero>")

    monkeypatch.setattr(gm.KernelRidge, "_evidence", broken)
    assert "(ZeroDivisionError: by <zero>)" in Page(below(model._repr_html_())).text
    assert "ZeroDivisionError" in told(model)


def test_rich_shows_an_unfitted_estimator_as_text():
    assert told(gm.MEKA(rank=3)).strip() == "MEKA(rank=3)"


@pytest.mark.parametrize("model", ALL, ids=lambda m: type(m).__name__)
def test_each_estimator_states_its_own_evidence(model):
    assert type(model)._evidence is not KernelEstimator._evidence
    stated = fitted(model)._evidence()
    assert stated.nbytes > 0
    assert all(len(points) for points in stated.points)


# ---- numbers and warnings ----------------------------------------------------------------------


def test_bytes_are_those_of_points_and_weights():
    model = fitted(REGRESSORS[1])
    assert model._evidence().nbytes == model.predictor_.rows.nbytes + model.predictor_.coefficients.nbytes
    compressed = fitted(REGRESSORS[2]).predictor_
    expected = sum(Z.nbytes for Z in compressed.landmarks) + compressed.nbytes
    assert fitted(REGRESSORS[2])._evidence().nbytes == pytest.approx(expected, rel=0.2)


def test_a_score_for_each_target_is_shown():
    model = gm.KernelRidgeCV(kernel="rbf", gamma=3.0, alpha_per_target=True).fit(X, np.c_[Y, X[:, 1]])
    facts = dict(model.summary().facts)
    assert facts["best score"].count(",") == facts["alpha"].count(",") == 1


def test_the_penalty_that_was_chosen_is_shown():
    model = gm.KernelSVC("auto", gamma=3.0).fit(X, LABELS)
    assert dict(model.summary().facts)["C"] == f"{model.C_:.4g}"


def test_rows_of_a_stream_are_those_seen():
    model = gm.KernelRidge(0.1, gamma=3.0)
    for part in np.array_split(np.arange(len(X)), 3):
        model.partial_fit(X[part], Y[part])
    assert model._evidence().n_rows == len(X)
    assert f"{len(X)} rows" in Page(below(model._repr_html_())).text
    assert "predictor_" not in vars(model), "showing a stream has solved its system"


def warned(model, **changes):
    model.solution_ = replace(model.solution_, **changes)
    return " ".join(model.summary().warnings)


def test_evidence_of_trouble_is_a_warning():
    model = fitted(REGRESSORS[0])
    assert model.summary().warnings == ()
    assert "relative residual of 0.1 only. Raise alpha" in warned(model, residual=0.1)
    assert "0.5 was added to the diagonal" in warned(model, jitter=0.5)
    assert "sum -2 were clipped" in warned(model, clipped=2.0)
    assert "stopped at the time limit" in warned(model, status=Status.TIME)
    assert "Raise max_iter or tol, or lower C" in warned(fitted(CLASSIFIERS[1]), status=Status.LIMIT)


def test_a_solver_that_missed_its_tolerance_is_shown():
    model = gm.KernelSVC(gamma=3.0, max_iter=1)
    with pytest.warns(AccuracyWarning):
        model.fit(X, LABELS)
    assert any("max_iter" in text for text in model.summary().warnings)
    assert "gm-warning" in model._repr_html_()


def test_a_model_from_a_file_says_the_same_but_for_the_operator(tmp_path):
    for model in (fitted(REGRESSORS[2]), fitted(MAPS[2]), fitted(CLASSIFIERS[4])):
        gm.save(model, tmp_path / "m.gramian")
        loaded = gm.load(tmp_path / "m.gramian")
        here, there = (dict(each.summary().facts) for each in (model, loaded))
        assert there["trained on"] == here["trained on"]
        if "operator_" not in vars(model):
            assert there["blocks"] == here["blocks"]
        assert there["model"]
