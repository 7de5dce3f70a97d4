"""``gramian report``: pages of every kind of model, alone and judged on rows; escaped and self-contained."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from html_page import Page
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gramian as gm

for extra in ("typer", "pyarrow", "pandas", "matplotlib"):
    pytest.importorskip(extra)

import pandas as pd
from command_line import bad, good

from gramian.reporting.judging import judge
from gramian.reporting.pictures import spectrum

RNG = np.random.default_rng(0)
#: A name with markup, and one that matplotlib would take for mathematics.
NAMES = ["rooms", "<b>age</b>", "$x^$"]
X = RNG.standard_normal((160, 3))
PRICE = np.sin(2 * X[:, 0]) + X[:, 1]
LABEL = np.where(PRICE > 0.8, "<i>high</i>", np.where(PRICE > -0.3, "$mid", "low & co"))
REGRESSION = pd.DataFrame(X, columns=NAMES).assign(price=PRICE)
CLASSES = pd.DataFrame(X, columns=NAMES).assign(label=LABEL)


def saved(model: Any, folder: Path, frame: pd.DataFrame, target: str) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", gm.AccuracyWarning)
        model.fit(frame[NAMES], frame[target])
    gm.save(model, folder / "m.gramian", notes={"target": target})
    return folder / "m.gramian"


def page_of(path: Path) -> Page:
    found = Page(path.read_text(encoding="utf-8"))
    found.assert_self_contained()
    text = path.read_text(encoding="utf-8")
    # Names of XML's own within a picture are no addresses; pictures are base64 here.
    assert "http" not in text
    assert "@import" not in text
    assert "url(" not in text
    return found


def titles(page: Page) -> str:
    return page.text[page.text.index("Pictures") :]


MODELS = {
    "ridge": (make_pipeline(StandardScaler(), gm.KernelRidge(0.1, gamma=0.3)), REGRESSION, "price"),
    "exact": (gm.KernelRidge(0.1, gamma=0.3, approximation="exact"), REGRESSION, "price"),
    "blocks": (
        gm.KernelRidge(0.1, gamma=0.3, approximation=gm.MultiResolution(root_rank=20, rank=5, n_blocks=4)),
        REGRESSION,
        "price",
    ),
    "search": (gm.KernelRidgeCV(alphas=(0.01, 0.1, 1.0)), REGRESSION, "price"),
    "process": (gm.GaussianProcessRegressor(max_iter=10), REGRESSION, "price"),
    "fast": (gm.FastKernelRegressor(n_levels=1, n_units=2, n_directions=2), REGRESSION, "price"),
    "classes": (gm.KernelRidgeClassifier(gamma=0.3), CLASSES, "label"),
    "svm": (gm.KernelSVC(gamma=0.3, probability=True, random_state=0), CLASSES, "label"),
    "exact svm": (gm.DCSVC(gamma=0.3), CLASSES, "label"),
    "leaves": (gm.DCPredClassifier(gamma=0.3, n_leaves=3), CLASSES, "label"),
    "meka": (make_pipeline(StandardScaler(), gm.MEKA(rank=5, n_blocks=3)), REGRESSION, "price"),
    "features": (gm.RandomFourier(rank=10), REGRESSION, "price"),
    "components": (gm.KernelPCA(n_components=3, gamma=0.3), REGRESSION, "price"),
}
#: What a page of the model must show, judged on its rows.
SHOWN = {
    "ridge": ["RMSE", "Predicted against true", "Residuals", "Bytes per phase", "Features (3)"],
    "blocks": ["Blocks: landmarks, level 1", "Spectrum of the kernel on the landmarks"],
    "search": ["The search for alpha"],
    "process": ["Coverage of the intervals"],
    "classes": ["accuracy", "Confusion"],
    "svm": ["Calibration"],
    "exact svm": ["support vectors"],
    "leaves": ["Blocks: rows"],
    "meka": ["Frobenius error", "95 % within", "trace error", "Spectrum of the core"],
    "components": ["Spectrum of the components", "the model has no predict"],
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_model_has_a_page(name: str, tmp_path: Path) -> None:
    model, frame, target = MODELS[name]
    path = saved(model, tmp_path, frame, target)
    alone = good("report", path, "--html", tmp_path / "alone.html")
    assert "Wrote" in alone
    page_of(tmp_path / "alone.html")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    good("report", path, "--html", tmp_path / "judged.html", "--data", tmp_path / "rows.csv")
    page = page_of(tmp_path / "judged.html")
    for text in SHOWN.get(name, []):
        assert text in page.text
    images = [address for address in page.addresses if address.startswith("data:image/svg+xml;base64,")]
    assert len(images) == len(page.addresses) == page.elements.count("figure")
    assert (len(images) > 0) is (name != "fast" or "Predicted against true" in page.text)
    assert not list(tmp_path.glob(".*"))  # nothing unfinished is left


@pytest.mark.slow
def test_names_from_the_data_are_text(tmp_path: Path) -> None:
    path = saved(make_pipeline(StandardScaler(), gm.KernelRidgeClassifier()), tmp_path, CLASSES, "label")
    CLASSES.to_csv(tmp_path / "<u>rows.csv", index=False)
    good("report", path, "--html", tmp_path / "out.html", "--data", tmp_path / "<u>rows.csv")
    page = page_of(tmp_path / "out.html")
    assert not {"i", "u"} & set(page.elements)
    for text in ("<b>age</b>", "<i>high</i>", "Scores on <u>rows.csv", "low & co"):
        assert text in page.text


def test_a_fit_leaves_its_held_out_score(tmp_path: Path) -> None:
    REGRESSION.to_csv(tmp_path / "t.csv", index=False)
    options = ["--gamma", "0.3", "--alpha", "0.1", "--out", tmp_path / "m.gramian"]
    good("fit", tmp_path / "t.csv", "--target", "price", *options)
    said = good("report", tmp_path / "m.gramian")
    assert re.search(r"held out R² [\d.]+, RMSE [\d.]+ on 32 rows", said)
    assert "StandardScaler → KernelRidge" in said
    good("fit", tmp_path / "t.csv", "--target", "price", *options, "--holdout", "0")
    assert "held out" not in good("report", tmp_path / "m.gramian")


def test_scores_are_those_of_the_predictions() -> None:
    model = gm.KernelRidge(0.1, gamma=0.3).fit(X, PRICE)
    judged = judge(model, X, PRICE)
    assert judged.scores["R²"] == pytest.approx(model.score(X, PRICE))
    assert judged.baseline["R²"] == pytest.approx(0.0)
    assert judged.seconds > 0


def test_whole_floats_are_the_classes_that_they_stand_for() -> None:
    labels = (PRICE > 0).astype(int)
    model = gm.KernelRidgeClassifier(gamma=0.3).fit(X, labels)
    judged = judge(model, X, labels.astype(float))
    assert judged.y.dtype == judged.predicted.dtype
    assert judged.scores["accuracy"] == model.score(X, labels)


def test_the_spectrum_is_that_of_the_matrix() -> None:
    model = gm.KernelRidge(0.1, gamma=0.3, approximation="exact").fit(X, PRICE)
    values, of, _ = spectrum(model._evidence(), 0)
    assert of == "the kernel on the landmarks"
    np.testing.assert_allclose(values.sum(), len(X), rtol=1e-9)
    core = gm.MEKA(rank=5, n_blocks=3, random_state=0).fit(X)
    found, of, _ = spectrum(core._evidence(), 0)
    assert of == "the core"
    np.testing.assert_allclose(found.sum(), np.trace(core.features_.core.to_dense()), rtol=1e-9)


@pytest.mark.slow
def test_the_same_model_makes_the_same_page(tmp_path: Path) -> None:
    path = saved(gm.KernelRidge(0.1, gamma=0.3), tmp_path, REGRESSION, "price")
    for name in ("a.html", "b.html"):
        good("report", path, "--html", tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


# ---- errors ------------------------------------------------------------------------------------


def test_slips_are_told_before_the_work(tmp_path: Path) -> None:
    path = saved(gm.KernelRidge(0.1, gamma=0.3), tmp_path, REGRESSION, "price")
    REGRESSION.to_csv(tmp_path / "rows.csv", index=False)
    assert "the folder" in bad("report", path, "--html", tmp_path / "no" / "out.html")
    assert "--target names a column of --data" in bad("report", path, "--target", "price")
    data = ["--data", tmp_path / "rows.csv"]
    assert "has no column 'cost'" in bad("report", path, *data, "--target", "cost")
    assert "cannot be loaded" in bad("report", tmp_path / "rows.csv")
    assert "it is a folder" in bad("report", path, "--html", tmp_path)


def test_rows_without_a_target_give_seconds_alone(tmp_path: Path) -> None:
    path = saved(gm.KernelRidge(0.1, gamma=0.3), tmp_path, REGRESSION, "price")
    REGRESSION[NAMES].to_csv(tmp_path / "rows.csv", index=False)
    said = good("report", path, "--data", tmp_path / "rows.csv")
    assert "seconds of the predictions" in said
    assert "no scores no targets were given" in said


def test_a_feature_as_the_target_is_refused(tmp_path: Path) -> None:
    path = saved(gm.KernelRidge(0.1, gamma=0.3), tmp_path, REGRESSION, "price")
    REGRESSION.to_csv(tmp_path / "rows.csv", index=False)
    said = bad("report", path, "--data", tmp_path / "rows.csv", "--target", NAMES[0])
    assert (
        f"--target {NAMES[0]} is a column that the model predicts from. Pass the column of the true" in said
    )


def test_without_matplotlib_the_command_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(gm.KernelRidge(0.1, gamma=0.3), tmp_path, REGRESSION, "price")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    told = bad("report", path, "--html", tmp_path / "out.html")
    assert "matplotlib, which is not installed. Run: pip install 'gramian[plot]'" in told
    assert "KernelRidge" in good("report", path)


def test_notes_are_shown_without_their_escape_sequences(tmp_path):
    path = tmp_path / "m.gramian"
    notes = {"from": "\x1b[31mred\x1b[0m", "\x1b]0;title\x07": "x"}
    gm.save(gm.KernelRidge().fit(X, PRICE), path, notes=notes)
    text = good("report", path)
    assert "\x1b" not in text
    assert "\\x1b[31mred" in text
    assert "\\x1b]0;title\\x07" in text
