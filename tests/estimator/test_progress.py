"""Bars where they are asked for, and phases in the log."""

import logging
import subprocess
import sys

import numpy as np
import pytest
from every_estimator import ESTIMATORS, QUICK, fit, parameters

import gramian as gm
from gramian.estimator.progress import rows_bar


def table():
    X = np.random.default_rng(0).random((4000, 3))
    return X, np.sin(5 * X[:, 0])


def ridge(**options):
    return gm.KernelRidge(0.1, gamma=3.0, approximation=gm.MultiResolution(root_rank=30, rank=10), **options)


@pytest.mark.parametrize("verbose", [0, 1])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_bar_is_shown_where_it_is_asked_for(capsys, verbose, method):
    getattr(ridge(verbose=verbose), method)(*table())
    shown = capsys.readouterr()
    assert shown.out == ""
    assert ("4000/4000" in shown.err.replace("k", "000") or "bases" in shown.err) is bool(verbose)


@pytest.mark.parametrize("name", [name for name, kind in ESTIMATORS.items() if "verbose" in parameters(kind)])
def test_every_fit_shows_a_bar_where_it_is_asked_for(capsys, name):
    quick = {} if name.startswith("Tabular") else QUICK.get(name, {})  # a time_limit that is missed warns
    model = ESTIMATORS[name](random_state=0, **quick)
    fit(model)
    assert not any(capsys.readouterr())
    fit(model.set_params(verbose=True))
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "[00:" in shown.err


def test_a_bar_names_its_phase(capsys):
    with rows_bar(100, verbose=1) as done:
        first = capsys.readouterr().err
        done(100)
    assert "bases" in first
    assert "0/100" in first
    assert "sums" in capsys.readouterr().err


def test_phases_are_logged_with_seconds_and_bytes(caplog):
    with caplog.at_level(logging.INFO, logger="gramian"):
        model = ridge().fit(*table())
    assert [record.phase for record in caplog.records] == ["bases", "sums", "solve", "fold"]
    for record in caplog.records:
        assert record.seconds == model.plan_.used_seconds[record.phase] >= 0
        assert record.bytes == model.plan_.used_bytes[record.phase] > 0
        assert record.phase in record.getMessage()


@pytest.mark.slow
def test_a_notebook_without_widgets_is_warned_only_where_it_shows_a_bar():
    pytest.importorskip("tqdm", minversion="4.67", reason="older tqdm does not warn")
    code = """
import sys, types, warnings
sys.modules["ipywidgets"] = None
sys.modules["ipykernel.zmqshell"] = types.ModuleType("ipykernel.zmqshell")
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: object())
warnings.simplefilter("error")
import numpy as np, gramian as gm
X = np.random.default_rng(0).random((100, 2))
gm.KernelRidge(gamma=3.0).fit(X, X[:, 0])
warnings.simplefilter("default")
with warnings.catch_warnings(record=True) as told:
    gm.KernelRidge(gamma=3.0, verbose=1).fit(X, X[:, 0])
print([str(warning.message)[:9] for warning in told])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "['IProgress']" in done.stdout
