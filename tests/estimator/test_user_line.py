"""Warnings point at the line of the user's file that called the library, whatever lies between."""

from __future__ import annotations

import importlib.util
import threading
import warnings

import pytest

from gramian.exceptions import user_level

FITS = {
    "far targets": "gm.KernelRidge(random_state=0).fit(X, y + 1e3)",
    "column scales": "gm.KernelSVC(random_state=0).fit(X * [1.0, 1e6], y > 0.5)",
    "tolerance": "gm.KernelLogisticRegression(max_iter=1).fit(X, y > 0.5)",
    "class weight": "gm.KernelRidgeClassifier(class_weight={'1': 2.0}).fit(X, (y > 0.5).astype(int))",
    "copies": "copy.deepcopy(gm.KernelRidge().fit(X, y)).partial_fit(X, y)",
    "edge": "gm.KernelRidgeCV((10.0, 100.0), random_state=0).fit(X, y)",
    "few rows": "gm.TabularRegressor(random_state=0).fit(X[:4], y[:4])",
    "unused columns": "gm.TabularRegressor(effort='fast').fit(np.c_[X, np.full(80, np.nan)], y)",
    "pipeline": "make_pipeline(StandardScaler(), gm.KernelLogisticRegression(max_iter=1)).fit(X, y > 0.5)",
    "grid": "GridSearchCV(gm.KernelSVR(max_iter=1, C=1e4), {'gamma': [1.0]}, cv=2).fit(X, y)",
    "within": "gm.KernelSVR(epsilon=5.0).fit(X, y)",
}
HEAD = """import copy
import numpy as np, gramian as gm
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
X = np.random.default_rng(0).random((80, 2))
y = X[:, 0]
"""


@pytest.mark.parametrize("call", FITS.values(), ids=FITS.keys())
@pytest.mark.whole
def test_a_warning_points_at_the_users_file(call, tmp_path):
    path = tmp_path / "of_a_user.py"
    path.write_text(HEAD + call + "\n")
    spec = importlib.util.spec_from_file_location("of_a_user", path)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert told, "the call no longer warns: choose another"
    for warning in told:
        assert (warning.filename, warning.lineno) == (str(path), HEAD.count("\n") + 1), str(warning.message)


def test_a_thread_without_a_line_of_the_user():
    found = []
    ours = {"__name__": "gramian.made_up", "user_level": user_level, "found": found}
    exec("def work():\n    found.append(user_level())", ours)
    thread = threading.Thread(target=ours["work"])
    thread.start()
    thread.join()
    assert found == [1]
    assert user_level() == 1
