"""A misspelt constructor parameter is answered by the one that was probably meant."""

import inspect

import pytest
from every_estimator import ESTIMATORS, parameters
from sklearn.base import clone

import gramian as gm


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name in gm.__all__])
def test_constructors_and_set_params_name_the_nearest_parameter(name):
    kind = ESTIMATORS[name]
    right = list(parameters(kind))[-1]
    wrong = right + "s"
    with pytest.raises(TypeError, match=rf"{name} has no parameter '{wrong}'\. Did you mean '{right}'\?"):
        kind(**{wrong: 1})
    with pytest.raises(ValueError, match=rf"(?s)no parameter '{wrong}'.* Did you mean '{right}'\?"):
        kind().set_params(**{wrong: 1})


def test_what_is_like_no_parameter_gets_a_list():
    with pytest.raises(TypeError, match=r"has no parameter 'xyz'\. Its parameters are alpha, kernel"):
        gm.KernelRidge(xyz=1)
    nested = gm.KernelRidge(approximation=gm.Nystrom())
    with pytest.raises(gm.InputError, match=r"Nystrom has no parameter 'ranc'.*Did you mean 'rank'"):
        nested.set_params(approximation__ranc=3)
    assert nested.set_params(approximation__rank=3).approximation.rank == 3


def test_signatures_clones_and_subclasses_are_as_before():
    assert list(inspect.signature(gm.KernelRidge).parameters)[:2] == ["alpha", "kernel"]

    class Named(gm.KernelRidge):
        def __init__(self, alpha=2.0, **rest):
            super().__init__(alpha, **rest)

    assert Named(gamma=3.0).gamma == 3.0
    assert clone(gm.KernelRidge(0.5, gamma=2.0)).get_params()["gamma"] == 2.0
    with pytest.raises(TypeError, match="positional argument"):
        gm.KernelRidge(1.0, "rbf")
