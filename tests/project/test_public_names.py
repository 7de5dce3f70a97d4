"""The names of `gramian` itself: few, and a name that lives in a subpackage says where."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import pytest

import gramian as gm

pytestmark = pytest.mark.whole  # each configuration is about another page or file


def test_few_names():
    assert len(gm.__all__) <= 51
    assert all(hasattr(gm, name) for name in gm.__all__)


def test_dir_lists_the_names_for_users_only():
    listed = dir(gm)
    assert {*gm.__all__, "__version__", "kernels", "operators"} <= {*listed}
    others = {*listed} - {*gm.__all__, "__version__"}
    assert all(import_module(f"gramian.{name}").__all__ for name in others)  # public subpackages
    assert not {"did_you_mean", "compression", "_checks"} & {*listed}


@pytest.mark.parametrize(("name", "where"), gm._ELSEWHERE.items())
def test_a_name_of_a_subpackage_is_there_and_the_error_says_so(name, where):
    assert name not in gm.__all__
    assert hasattr(import_module(f"gramian.{where}"), name)
    with pytest.raises(AttributeError, match=f"from gramian.{where} import {name}"):
        getattr(gm, name)


@pytest.mark.parametrize(("name", "where"), gm._MOVED.items())
def test_a_name_that_left_the_package_says_where_it_went(name, where):
    assert (Path(__file__).parents[2] / where).exists()
    with pytest.raises(AttributeError, match=f"'{name}'. It moved out of the package, to {where} in"):
        gm.__getattr__(name)


def test_any_other_name_has_pythons_own_error():
    with pytest.raises(AttributeError, match="Did you mean 'KernelRidge'"):
        gm.KernelRidgeRegressor  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module .gramian. has no attribute .Nothing.\.$"):
        gm.Nothing  # noqa: B018


@pytest.mark.parametrize("name", ["TabularRegresor", "tabularregressor", "KernelRidgeClasifier", "opendata"])
def test_a_misspelt_name_is_answered_by_the_one_that_is_near(name):
    with pytest.raises(AttributeError, match=r"\. Did you mean '(TabularR|KernelRidgeCl|open_)"):
        getattr(gm, name)


@pytest.mark.parametrize(
    "compress", [gm.compress, gm.TabularRegressor.compress, gm.TabularClassifier.compress]
)
def test_compress_has_one_default_cost(compress):
    assert inspect.signature(compress).parameters["cost"].default == "20x"
