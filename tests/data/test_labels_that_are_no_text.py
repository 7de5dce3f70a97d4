"""Labels of columns that are no text: taken by place, and said where they are not in order."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gramian as gm

pandas = pytest.importorskip("pandas")
X = pandas.DataFrame(np.random.default_rng(0).random((60, 3)))
Y = X[0] + 2.0 * X[1]


@pytest.mark.parametrize("make", [gm.KernelRidge, gm.GaussianProcessRegressor, gm.TabularRegressor])
def test_labels_in_another_order_are_said(make):
    model = make(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", gm.exceptions.AccuracyWarning)
        model.fit(X, Y)
        model.predict(X)
    with pytest.warns(UserWarning, match=r"labels 2, 0, 1, which are no text and not in order"):
        model.predict(X[[2, 0, 1]])


@pytest.mark.parametrize("labels", [(2001, 2003, 2002), ((1, "b"), (1, "a"), (2, "a"))])
def test_fits_say_it_too(labels):
    with pytest.warns(UserWarning, match=r"X\.columns\.astype\(str\)"):
        gm.KernelRidge(random_state=0).fit(X.set_axis(list(labels), axis=1), Y)
