"""Summaries as values, as HTML and in rich: complete, escaped, and never in need of an optional package."""

from __future__ import annotations

import subprocess
import sys
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
from gramian.summary import Grid, Shown, Summary, short, spread_grid
from gramian.summary.html import body, fragment, tables_html

NASTY = "<b>&\"'</td>[red]"


SAMPLE = Summary(
    NASTY,
    ((f"fact {NASTY}", NASTY),),
    (Grid(f"grid {NASTY}", ("a", NASTY), (("1", NASTY),), f"note {NASTY}"),),
    (f"warning {NASTY}",),
    f"closing {NASTY}",
)


@pytest.mark.parametrize("write", [fragment, body])
def test_html_shows_every_text_as_it_is(write):
    page = Page(write(SAMPLE))
    page.assert_self_contained()
    assert "b" not in page.elements
    assert page.text.count(NASTY) == 9
    assert ("style" in page.elements) is (write is fragment)


def test_details_are_folded_unless_asked_for():
    assert "<details open>" not in body(SAMPLE)
    assert tables_html([*SAMPLE.grids, *SAMPLE.grids], opened=1).count("<details open>") == 1


def test_style_leaves_the_colour_of_text_to_the_page():
    assert "color:inherit" in fragment(SAMPLE)
    assert "color:#" not in fragment(SAMPLE).replace("background-color", "")
    assert "http" not in fragment(SAMPLE)


def test_text_has_every_text():
    assert str(SAMPLE).count(NASTY) == 9
    assert "Warning: warning" in str(SAMPLE)


def test_rich_reads_no_markup():
    class Thing(Shown):
        def summary(self):
            return SAMPLE

    assert told(Thing()).count(NASTY) == 9


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match=r"A row of 'sizes' has 1 texts, but there are 2 columns\."):
        Grid("sizes", ("a", "b"), (("1",),))


def test_sizes_are_spread():
    grid = spread_grid("Blocks", "level", [("0", [3]), ("1", [1, 2, 30_000]), ("2", [])])
    assert grid.rows[0] == ("0", "1", "3", "3", "3", "3")
    assert grid.rows[1] == ("1", "3", "1", "2", "30,000", "30,003")
    assert grid.rows[2][-1] == "0"


def test_long_texts_are_cut():
    assert short("x" * 500, 10) == "x" * 9 + "…"
    assert short("a\n  b") == "a b"


# ---- plans and reports -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    X = np.random.default_rng(0).random((300, 2))
    model = gm.MultiResolution(gamma=30.0, root_rank=20, rank=6, n_blocks=4, random_state=0)
    return model.fit(X), X


def test_a_plan_shows_sizes_bytes_and_seconds(fitted):
    plan = fitted[0].plan_
    page = Page(plan._repr_html_())
    page.assert_self_contained()
    for text in ("300", "root rank 20", "4 blocks of rank 6", "predicted peak", "operator", "1 GB"):
        assert text in page.text
    assert [row[0] for row in plan.phases().rows] == ["sample", "bases", "operator"]
    assert "4 blocks of rank 6" in told(plan)
    assert str(plan).startswith("multiresolution: root rank 20")


def test_a_plan_that_is_not_carried_out_took_no_time(fitted):
    model, X = fitted
    plan = model.plan(X)
    assert plan.n_rows == len(X)
    assert "took" not in [name for name, _ in plan.summary().facts]
    Page(plan._repr_html_())


def test_a_report_shows_the_error_with_its_interval_and_every_block(fitted):
    model, X = fitted
    report = model.report(X[:], n_rows=50, random_state=0)
    page = Page(report._repr_html_())
    page.assert_self_contained()
    assert f"95 % within {report.frobenius.low:.3g} and {report.frobenius.high:.3g}" in page.text
    assert report.judgement in page.text
    assert "Error by block: the worst 4 of 4" in page.text
    assert report.judgement.split()[0] in told(report)
    assert model.report().judgement in Page(model.report()._repr_html_()).text


def test_a_report_warns_of_clipped_eigenvalues(fitted):
    from dataclasses import replace

    clipped = replace(fitted[0].report(), clipped=0.5)
    assert clipped.summary().warnings == (
        "Negative eigenvalues with sum -0.5 were clipped to zero in a solve.",
    )


@pytest.mark.slow
def test_without_rich_all_but_rich_works():
    code = """
import sys
sys.modules["rich"] = None
import numpy as np, gramian as gm
model = gm.Nystrom(rank=5, gamma=3.0).fit(np.random.default_rng(0).random((50, 2)))
assert "gramian-summary" in model._repr_html_()
assert "gramian-summary" in model.plan_._repr_html_()
print(model, model.plan_, model.report(), model.plan_.summary())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_rich_prints_a_plan_by_itself(fitted, capsys):
    pytest.importorskip("rich").print(fitted[0].plan_)
    assert "Phases of the fit" in capsys.readouterr().out


# ---- fitted estimators show what they have made -----------------------------------------------------

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


def fitted_models(model):
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

    model = fitted_models(model)
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
    found = below(fitted_models(CLASSIFIERS[0])._repr_html_())
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
    model = fitted_models(REGRESSORS[-1])

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
    model = fitted_models(REGRESSORS[0])

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
    stated = fitted_models(model)._evidence()
    assert stated.nbytes > 0
    assert all(len(points) for points in stated.points)


# ---- numbers and warnings ----------------------------------------------------------------------


def test_bytes_are_those_of_points_and_weights():
    model = fitted_models(REGRESSORS[1])
    assert model._evidence().nbytes == model.predictor_.rows.nbytes + model.predictor_.coefficients.nbytes
    compressed = fitted_models(REGRESSORS[2]).predictor_
    expected = sum(Z.nbytes for Z in compressed.landmarks) + compressed.nbytes
    assert fitted_models(REGRESSORS[2])._evidence().nbytes == pytest.approx(expected, rel=0.2)


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
    model = fitted_models(REGRESSORS[0])
    assert model.summary().warnings == ()
    assert "relative residual of 0.1 only. Raise alpha" in warned(model, residual=0.1)
    assert "0.5 was added to the diagonal" in warned(model, jitter=0.5)
    assert "sum -2 were clipped" in warned(model, clipped=2.0)
    assert "stopped at the time limit" in warned(model, status=Status.TIME)
    assert "Raise max_iter or tol, or lower C" in warned(fitted_models(CLASSIFIERS[1]), status=Status.LIMIT)


def test_a_solver_that_missed_its_tolerance_is_shown():
    model = gm.KernelSVC(gamma=3.0, max_iter=1)
    with pytest.warns(AccuracyWarning):
        model.fit(X, LABELS)
    assert any("max_iter" in text for text in model.summary().warnings)
    assert "gm-warning" in model._repr_html_()


def test_a_model_from_a_file_says_the_same_but_for_the_operator(tmp_path):
    for model in (fitted_models(REGRESSORS[2]), fitted_models(MAPS[2]), fitted_models(CLASSIFIERS[4])):
        gm.save(model, tmp_path / "m.gramian")
        loaded = gm.load(tmp_path / "m.gramian")
        here, there = (dict(each.summary().facts) for each in (model, loaded))
        assert there["trained on"] == here["trained on"]
        if "operator_" not in vars(model):
            assert there["blocks"] == here["blocks"]
        assert there["model"]
