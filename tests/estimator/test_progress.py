"""Bars where they are asked for, and phases in the log."""

import logging
import subprocess
import sys
from contextlib import contextmanager
from threading import Event
from threading import enumerate as enumerate_threads

import numpy as np
import pytest
from every_estimator import ESTIMATORS, QUICK, fit, parameters

import gramian as gm
from gramian.approximations import approximation
from gramian.approximations.methods import METHODS
from gramian.estimator import fitting
from gramian.estimator.fitting import shown_bar, shown_phases


def table():
    X = np.random.default_rng(0).random((4000, 3))
    return X, np.sin(5 * X[:, 0])


#: Sizes of the methods with which 600 rows are fitted at once; of the others the rank.
SMALL = {
    "meka": {"rank": 8, "n_blocks": 3},
    "bbf": {"rank": 8, "n_blocks": 3},
    "blockdiagonal": {"rank": 8, "n_blocks": 3},
    "clusteredlowrank": {"rank": 8, "n_blocks": 3},
    "lowrankplusblocks": {"root_rank": 20, "n_blocks": 3},
    "multiresolution": {"rank": 8, "root_rank": 20, "n_blocks": 3},
    "ensemblenystrom": {"rank": 8, "n_experts": 2},
}


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


def test_a_bar_names_its_phase_and_counts_its_rows(capsys):
    with shown_phases(1) as phases:
        phases("bases")
        first = capsys.readouterr().err
        phases("sums", 100)(100)
        phases("leaves", 7, unit="leaves")
    assert "bases" in first
    shown = capsys.readouterr().err
    assert "sums" in shown
    assert "0/100" in shown
    assert "0/7" in shown
    assert shown.endswith("\r")  # the line is gone


def test_a_bar_is_refreshed_while_nothing_is_counted(monkeypatch):
    monkeypatch.setattr(fitting, "TICK_SECONDS", 1e-3)
    told = Event()
    with shown_bar(1, desc="long") as bar:
        monkeypatch.setattr(bar, "refresh", lambda *_, **__: told.set())
        assert told.wait(60)
        monkeypatch.undo()
    assert not [thread for thread in enumerate_threads() if thread.name == "gramian progress"]


def test_phases_are_logged_with_seconds_and_bytes(caplog):
    with caplog.at_level(logging.INFO, logger="gramian"):
        model = ridge().fit(*table())
    assert [record.phase for record in caplog.records] == ["bases", "sums", "solve", "fold"]
    for record in caplog.records:
        assert record.seconds == model.plan_.used_seconds[record.phase] >= 0
        assert record.bytes == model.plan_.used_bytes[record.phase] > 0
        assert record.phase in record.getMessage()


@pytest.mark.parametrize("name", METHODS)
def test_an_approximation_shows_bases_and_rows_of_its_operator(capsys, name):
    X = np.random.default_rng(0).random((600, 3))
    kernel = "poly" if name in ("randommaclaurin", "tensorsketch") else "rbf"
    model = METHODS[name](kernel=kernel, random_state=0, **SMALL.get(name, {"rank": 8}))
    model.fit(X)
    assert not any(capsys.readouterr())
    silent = model.operator_.to_dense()
    model.set_params(verbose=1).fit(X)
    shown = capsys.readouterr()
    assert shown.out == ""
    phases = shown.err
    assert "bases" in phases
    assert "operator" in phases
    assert "0/600" in phases
    assert phases.endswith("\r")
    np.testing.assert_array_equal(model.operator_.to_dense(), silent)


@pytest.mark.parametrize("name", METHODS)
def test_the_phases_of_an_approximation_count_every_row(monkeypatch, name):
    counted: dict[str, list] = {}

    @contextmanager
    def recorded(_):
        def begin(phase, total=None, *, unit="rows"):
            counted[phase] = [total, 0]

            def done(rows):
                counted[phase][1] += rows

            return done

        yield begin

    monkeypatch.setattr(approximation, "shown_phases", recorded)
    X = np.random.default_rng(0).random((600, 3))
    kernel = "poly" if name in ("randommaclaurin", "tensorsketch") else "rbf"
    METHODS[name](kernel=kernel, random_state=0, **SMALL.get(name, {"rank": 8})).fit(X)
    assert list(counted) == ["sizes", "bases", "operator"]
    assert counted["operator"] == [600, 600]
    total, rows = counted["bases"]
    if name == "truncatedeigen":  # its iteration may end early
        assert 0 < rows <= total
        assert rows % 600 == 0
    else:
        assert rows == (total or 0)
        assert bool(rows) == (name in ("nystrom", "bbf", "kals"))


@pytest.mark.parametrize("outer", [0, 1])
@pytest.mark.parametrize("inner", [0, 1])
def test_the_bar_of_an_estimator_is_its_own_choice(capsys, inner, outer):
    inside = gm.MEKA(rank=8, n_blocks=3, verbose=inner)
    gm.KernelRidge(gamma=3.0, approximation=inside, verbose=outer, random_state=0).fit(*table())
    assert bool(capsys.readouterr().err) is bool(outer)


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
