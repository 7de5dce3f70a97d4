"""Reports of fitted models: self-contained pages whose numbers are those of the model on the given rows."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from html_page import Page

import gramian as gm

pytest.importorskip("matplotlib")
pd = pytest.importorskip("pandas")

from gramian.reporting.effects import rows_to_inspect, segments
from gramian.reporting.writing import _judge

RNG = np.random.default_rng(0)
N = 220
X = RNG.random((N, 3))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(N)
FRAME = pd.DataFrame({"area": X[:, 0], "<b>age</b>": X[:, 1], "town": RNG.choice(["Bath", "Hull"], N)})
FRAME.loc[::15, "area"] = np.nan
LABELS = np.where(Y > 0.9, "dear", np.where(Y > 0.4, "fair", "cheap"))

MODELS: dict[str, tuple[Any, Any, Any]] = {
    "ridge": (gm.KernelRidge(0.1, gamma=4.0), X, Y),
    "search": (gm.KernelRidgeCV(alphas=(0.01, 1.0), gamma=4.0), X, Y),
    "two outputs": (gm.KernelRidge(0.1, gamma=4.0), X, np.column_stack([Y, -Y])),
    "process": (gm.GaussianProcessRegressor(max_iter=20, n_restarts_optimizer=0), X, Y),
    "classes": (gm.KernelRidgeClassifier(gamma=4.0), X, LABELS),
    "svm": (gm.KernelSVC(gamma=4.0), X, LABELS == "fair"),
    "pairs": (gm.DCSVC(gamma=4.0), X, LABELS),
    "sparse": (gm.KernelRidge(0.1, gamma=4.0), sp.csr_array(np.where(X > 0.5, X, 0.0)), Y),
    "table": (gm.TabularRegressor(random_state=0), FRAME, Y),
    "table classes": (gm.TabularClassifier(random_state=0), FRAME, LABELS),
}
SHOWN = {
    "ridge": ["Effect of feature 0", "Errors by segment", "Row ", "Bytes per phase"],
    "search": ["The search for alpha"],
    "process": ["Coverage of the intervals", "Effect of feature 0"],
    "classes": ["Confusion", "Effect of feature", "share of wrong classes"],
    "svm": ["Confusion", "Effect of feature 0"],
    "table": [
        "Effect of town",
        "Settings compared on held-out rows",
        "What the model looks at",
        "<b>age</b>",
    ],
    "table classes": ["Effect of", "Calibration", "Confusion"],
}
QUICK = ("ridge",)


def written(name: str, folder: Path, *, judged: bool = True) -> tuple[Any, Page]:
    model, rows, y = MODELS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.AccuracyWarning)
        model.fit(rows[:160], y[:160])
    path = model.report(folder / "page.html", *((rows[160:], y[160:]) if judged else ()))
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    page.assert_self_contained()
    assert "http" not in text
    assert "url(" not in text
    return model, page


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MODELS]
)
def test_every_kind_of_model_has_a_report(name: str, tmp_path: Path) -> None:
    _, page = written(name, tmp_path)
    for text in (*SHOWN.get(name, []), "How to reproduce it", "scikit-learn", "What was chosen"):
        assert text in page.text
    assert "b" not in page.elements or "<b>age</b>" not in page.elements  # names from the data are text
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.slow
def test_scores_are_those_of_the_model(tmp_path: Path) -> None:
    model, page = written("table", tmp_path)
    rmse = float(np.sqrt(np.mean((model.predict(FRAME[160:]) - Y[160:]) ** 2)))
    assert f"{rmse:.4g}" in page.text
    assert re.search(r"of all rows the RMSE is", page.text, re.I)


def test_without_rows_it_shows_what_the_model_tells(tmp_path: Path) -> None:
    _, page = written("ridge", tmp_path, judged=False)
    assert "rows that the model has not seen" in page.text
    assert "Errors by segment" not in page.text


def test_effects_are_means_of_predictions() -> None:
    model = gm.TabularRegressor(random_state=0).fit(FRAME[:160], Y[:160])
    found = rows_to_inspect(model, FRAME, np.arange(160, 220))
    assert found is not None
    town = next(column for column in found.columns if column.name == "town")
    effect = found.effect(town, np.array([0, 1]))[:, 0]
    for value, code in (("Bath", 0), ("Hull", 1)):
        expected = model.predict(FRAME[160:].assign(town=value)).mean()
        np.testing.assert_allclose(effect[code], expected, rtol=1e-5)
    area = next(column for column in found.columns if column.name == "area")
    complete = FRAME[160:].dropna()
    found = rows_to_inspect(model, complete, np.arange(len(complete)))
    effect = found.effect(area, np.array([0.25]))[0, 0]
    np.testing.assert_allclose(effect, model.predict(complete.assign(area=0.25)).mean(), rtol=1e-5)


def test_segments_are_roots_of_mean_squares() -> None:
    model = gm.KernelRidge(0.1, gamma=4.0).fit(X, Y)
    found = rows_to_inspect(model, X, np.arange(N))
    errors = np.where(X[:, 0] > np.median(X[:, 0]), 4.0, 1.0)
    (grid,) = segments(found, errors, "RMSE")
    worst = grid.rows[0]
    assert worst[0] == "feature 0"
    assert float(worst[3]) == 2.0
    assert sum(row[0] == "feature 0" for row in grid.rows) == 4


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    model = gm.KernelRidge().fit(X, Y)
    with pytest.raises(gm.InputError, match="y is given without X"):
        model.report(tmp_path / "a.html", y=Y)
    with pytest.raises(gm.InputError, match="y has 3 targets, but X has 220 rows"):
        model.report(tmp_path / "a.html", X, Y[:3])
    with pytest.raises(gm.InputError, match=r"contains NaN or infinity, first in row 2"):
        model.report(tmp_path / "a.html", X, np.where(np.arange(N) == 2, np.nan, Y))
    with pytest.raises(gm.InputError, match="cannot be read as numbers"):
        model.report(tmp_path / "a.html", X, LABELS)
    classes = gm.KernelRidgeClassifier(gamma=4.0).fit(X, LABELS)
    for gone in (None, np.nan, pd.NA):
        with pytest.raises(gm.InputError, match="another missing label"):
            classes.report(tmp_path / "a.html", X, [gone, *LABELS[1:].tolist()])
    with pytest.raises(gm.InputError, match="there is no folder"):
        model.report(tmp_path / "none" / "a.html")
    from gramian.reporting import report

    with pytest.raises(gm.InputError, match="expected a fitted model"):
        report(object(), tmp_path / "a.html")
    assert not list(tmp_path.iterdir())


def test_targets_in_one_column_are_scored() -> None:
    for y in (Y[:, None], pd.DataFrame({"y": Y})):
        for own in (Y, y):
            found = _judge(gm.KernelRidge(0.1, gamma=4.0).fit(X, own), X, y, 0)
            assert found.why_not == ""
            assert found.scores["R²"] > 0.9


def test_a_transformer_has_a_report_on_rows(tmp_path: Path) -> None:
    from gramian.reporting import report

    model = gm.MEKA(rank=5, n_blocks=2, random_state=0).fit(X)
    page = Page(report(model, tmp_path / "page.html", X).read_text(encoding="utf-8"))
    assert "Frobenius error" in page.text
    assert "Effect of" not in page.text


@pytest.mark.filterwarnings("ignore:Column 'code' has:UserWarning")
def test_effects_of_a_category_with_level_means_set_all_that_it_is_encoded_to() -> None:
    levels = RNG.integers(0, 300, 1200)
    frame = pd.DataFrame({"area": RNG.random(1200), "code": [f"c{level}" for level in levels]})
    y = np.linspace(-2.0, 2.0, 300)[levels] + 0.1 * RNG.standard_normal(1200)
    model = gm.TabularRegressor(random_state=0, effort="instant").fit(frame, y)
    assert model.columns_.levels
    found = rows_to_inspect(model, frame, np.arange(400))
    assert found is not None
    code = next(column for column in found.columns if column.name == "code")
    where, name = next(
        (value, code.categories[int(value)])
        for value in np.unique(code.values)
        if code.categories[int(value)] in set(frame["code"])
    )
    shown = np.linspace(0, 399, 200).astype(int)
    expected = model.predict(frame.iloc[shown].assign(code=name)).mean()
    np.testing.assert_allclose(found.effect(code, np.array([where]))[0, 0], expected, rtol=1e-4)
