"""Tests of the attributes of kernel classes, from which all lists of families in the library are made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gramian as gm
from gramian import kernels
from gramian.kernels.base import Kernel
from gramian.kernels.families import EuclideanKernel, Family, Stationary
from gramian.kernels.resolve import BY_NAME, FAMILIES, resolve_kernel
from gramian.kernels.spectral import spectral_draws

PAGE = Path(__file__).parents[2] / "docs" / "kernels.md"
families = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)


def leaves(kind: type) -> set[type]:
    """Return the classes of the library below a class that are no base of others."""
    below = [sub for sub in kind.__subclasses__() if sub.__module__.startswith("gramian.")]
    return set().union(*map(leaves, below)) if below else {kind}


def test_every_family_is_listed_exported_and_described():
    assert leaves(Family) == set(FAMILIES)
    page = PAGE.read_text(encoding="utf-8")
    for kind in leaves(Kernel) - {kernels.FunctionKernel}:
        if kind.__module__ != "gramian.kernels.precomputed":
            assert getattr(kernels, kind.__name__) is kind
            assert f"`{kind.__name__}" in page or kind in (kernels.Sum, kernels.Product, kernels.Scaled)


@families
def test_a_name_and_gamma_give_the_rule_of_the_class(family):
    for name in family.names:
        params = {"q": 1.0} if name == "powered_exponential" else None
        kernel = resolve_kernel(name, n_features=2, gamma=0.7, kernel_params=params)
        assert type(kernel) is family is BY_NAME[name]
        if family.gamma_rule is not None:
            factor, power = family.gamma_rule
            assert 1.0 / (factor * kernel.lengthscale**power) == pytest.approx(0.7)


@families
def test_decreasing_families_decrease_in_every_direction(family):
    if not family.decreasing:
        return
    kernel, steps = family(), np.linspace(0.0, 6.0, 200)[:, None]
    along = kernel(np.zeros((1, 3)), steps * np.eye(3)[:1])[0]
    assert (np.diff(along) <= 1e-12).all()
    across = kernel(np.zeros((1, 3)), steps * np.ones((1, 3)) / np.sqrt(3.0))[0]
    assert (across <= along + 1e-12).all()


@families
def test_a_measure_reproduces_its_kernel(family):
    if not (issubclass(family, Stationary) and family.has_measure):
        with pytest.raises(gm.InputError, match=r"spectral measure.*Give one of Gaussian, Laplacian"):
            spectral_draws(family(), 10, 2, np.random.default_rng(0))
        return
    kernel, x = family(1.5), np.array([[0.3, -0.8]])
    frequencies, weights = spectral_draws(kernel, 40_000, 2, np.random.default_rng(0))
    found = float(weights @ np.cos(frequencies @ x[0]))
    assert found == pytest.approx(float(kernel(x, np.zeros((1, 2)))[0, 0]), abs=0.02)


EUCLIDEAN = [family for family in FAMILIES if issubclass(family, EuclideanKernel)]


@pytest.mark.parametrize("family", EUCLIDEAN, ids=lambda family: family.__name__)
def test_slopes_are_those_of_the_tile(family):
    kernel, origin = family(), np.zeros((1, 1))

    def k(squares):
        return kernel(origin, np.sqrt(squares)[:, None])[0]

    t, h = np.linspace(0.05, 20.0, 400), 1e-6
    rise = (k(t + h) - k(t - h)) / (2.0 * h)
    assert np.abs(rise).max() <= kernel.slope + 1e-6
    if family.radial_slope is not None:
        np.testing.assert_allclose(kernel.radial_slope(t), rise, atol=1e-7)


def test_a_family_of_a_user_has_only_what_it_says():
    class Wave(EuclideanKernel):
        def map_tile(self, t):
            np.sqrt(t, out=t)
            np.copyto(t, np.sinc(t / np.pi))

    wave = Wave()
    assert not any((wave.decreasing, wave.has_gradient, wave.has_measure))
