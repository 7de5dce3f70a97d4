"""The model of AutoGluon: both kinds of targets, folds, a time limit, a refit, and the page about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes

pytest.importorskip("autogluon.tabular", reason="of AutoGluon: pip install autogluon.tabular")
import pandas as pd
from autogluon.tabular import TabularPredictor

import gramian as gm
from gramian.integrations.autogluon import MEMORY, TIME_SHARE, GramianModel

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
PAGE = Path(__file__).parents[2] / "docs" / "autogluon.md"


def numbers():
    return load_diabetes(as_frame=True).frame


def classes():
    frame = load_breast_cancer(as_frame=True).frame
    frame["size"] = pd.cut(frame["mean radius"], 4, labels=list("abcd")).astype(str)
    return frame


def fitted(frame, path, given, **options):
    predictor = TabularPredictor("target", path=str(path), verbosity=0)
    return predictor.fit(frame, hyperparameters={GramianModel: given}, **options)


def inner(predictor, name):
    return predictor._trainer.load_model(name).model


def test_a_regression(tmp_path):
    frame = numbers()
    predictor = fitted(frame[:350], tmp_path, {})
    model = inner(predictor, "Gramian")
    assert isinstance(model, gm.TabularRegressor)
    assert model.memory_budget == MEMORY
    alone = gm.TabularRegressor(random_state=0).fit(frame[:350].drop(columns="target"), frame[:350]["target"])
    ours = predictor.evaluate(frame[350:])["r2"]
    assert ours > alone.score(frame[350:].drop(columns="target"), frame[350:]["target"]) - 0.1


def test_classes_in_folds_and_refitted(tmp_path):
    frame = classes()
    own = {"fold_fitting_strategy": "sequential_local"}
    predictor = fitted(
        frame[:450], tmp_path, {"effort": "fast"}, num_bag_folds=2, ag_args_ensemble=own, time_limit=60
    )
    bag = predictor._trainer.load_model("Gramian_BAG_L1")
    model = bag.load_child(bag.models[0]).model
    assert isinstance(model, gm.TabularClassifier)
    assert model.effort == "fast"
    assert 0 < model.time_limit <= TIME_SHARE * 60
    assert model.n_jobs >= 1
    assert predictor.evaluate(frame[450:])["roc_auc"] > 0.97
    predictor.refit_full()
    assert predictor.evaluate(frame[450:], model="Gramian_BAG_L1_FULL")["roc_auc"] > 0.97


def test_the_measure_of_absolute_errors_decides_the_search(tmp_path):
    frame = numbers()
    predictor = TabularPredictor("target", path=str(tmp_path), verbosity=0, eval_metric="mean_absolute_error")
    predictor.fit(frame[:200], hyperparameters={GramianModel: {"effort": "fast"}})
    assert inner(predictor, "Gramian").scoring == "neg_mean_absolute_error"


def test_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for snippet in re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        exec(compile(snippet, str(PAGE), "exec"), {"__name__": "__page__"})
