"""KernelRidgeCV warns where its best alpha is the smallest or largest of a list."""

import warnings

import numpy as np
import pytest

import gramian as gm

RNG = np.random.default_rng(0)
X = RNG.random((120, 1))
Y = np.sin(9 * X[:, 0]) + 0.3 * RNG.standard_normal(120)
SETTINGS = {"kernel": "rbf", "gamma": 10.0, "random_state": 0}


@pytest.mark.parametrize(
    ("alphas", "text"),
    [
        (
            (1.0, 1e2, 1e4),
            r"best alpha, 1, is the smallest of alphas \(1 to 1e\+04\): a smaller one.*as 0\.1",
        ),
        ((1e-8, 1e-6), r"best alpha, 1e-06, is the largest of alphas .*: a larger one may.*such as 1e-05"),
    ],
)
def test_an_alpha_at_an_edge_of_the_list_is_told(alphas, text):
    with pytest.warns(UserWarning, match=text):
        gm.KernelRidgeCV(alphas, **SETTINGS).fit(X, Y)


def test_outputs_at_an_edge_are_counted():
    both = np.column_stack([Y, RNG.standard_normal(120)])
    with pytest.warns(UserWarning, match=r"100, of 1 of 2 outputs, is the largest"):
        gm.KernelRidgeCV((1e-2, 1.0, 1e2), alpha_per_target=True, **SETTINGS).fit(X, both)


@pytest.mark.parametrize("alphas", ["auto", (1e-6, 1e-2, 0.1, 1.0, 10.0, 1e6), (0.5,)])
def test_nothing_is_said_within_the_list_of_one_alpha_or_of_auto(alphas):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gm.KernelRidgeCV(alphas, **SETTINGS).fit(X, Y)
