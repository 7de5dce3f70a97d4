"""Data sets by name, and rows made from the bundled digits."""

from __future__ import annotations

from urllib.error import URLError

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from suite import datasets
from suite.datasets import load_dataset, make_digits

from gramian.exceptions import InputError

# ---- by name -----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("GRAMIAN_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def offline(monkeypatch):
    """No folder, and fetchers that fail or give what the test wants."""
    monkeypatch.delenv("GRAMIAN_DATA", raising=False)

    def fetch(result):
        def fetcher(**options):
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(datasets, "fetch_openml", fetcher)
        monkeypatch.setattr(datasets, "fetch_covtype", fetcher)

    return fetch


def test_from_the_folder(folder):
    X, y = np.ones((4, 2), np.float32), np.arange(4)
    np.savez(folder / "toy.npz", X=X, y=y, n_train=3)
    np.savez(folder / "plain.npz", X=X, y=y)
    toy = load_dataset("toy")
    assert (toy.name, toy.n_train, toy.X.dtype) == ("toy", 3, np.float32)
    np.testing.assert_array_equal(toy.y, y)
    assert load_dataset("plain").n_train is None


def test_folder_errors(folder, monkeypatch):
    np.savez(folder / "letter.npz", X=np.ones((2, 2)))
    with pytest.raises(
        InputError, match=r"no data set 'leter' in .* Did you mean 'letter'\? Available: letter\."
    ):
        load_dataset("leter")
    with pytest.raises(InputError, match=r"no array 'y'\. Store X"):
        load_dataset("letter")
    (folder / "broken.npz").write_text("no archive")
    with pytest.raises(InputError, match="could not be read"):
        load_dataset("broken")
    with pytest.raises(InputError, match=r"There is no data set '\.\./letter'"):
        load_dataset("../letter")
    monkeypatch.setenv("GRAMIAN_DATA", str(folder / "absent"))
    with pytest.raises(InputError, match=r"is not a folder\. Point it at a folder of NAME\.npz files"):
        load_dataset("letter")


def test_fetch_errors(offline):
    with pytest.raises(InputError, match=r"'mnits' to fetch. Did you mean 'mnist'\? Available: cadata, "):
        load_dataset("mnits")
    for name in ("letter", "covtype"):
        offline(URLError("no route"))
        with pytest.raises(InputError, match=rf"'{name}' could not be fetched: .*no route.* {name}\.npz"):
            load_dataset(name)
    offline((np.ones((5, 16)), np.zeros(5)))
    with pytest.raises(InputError, match=r"has shape \(5, 16\), but \(20000, 16\) was expected"):
        load_dataset("letter")


@pytest.mark.data
@pytest.mark.parametrize("name", ["pendigits", "letter", "wine", "cpusmall", "cadata"])
def test_stored_sets_are_what_would_be_fetched(name):
    data, remote = load_dataset(name), datasets.REMOTE[name]
    assert data.X.shape == remote.shape
    assert data.X.dtype == remote.dtype
    assert data.y.dtype == (np.int16 if remote.task == "classes" else np.float64)
    assert remote.n_train in (None, data.n_train)


# ---- digits ------------------------------------------------------------------------------------


def test_digits_are_deterministic_and_only_appended(tmp_path):
    first = make_digits(tmp_path / "a.npy", 3000, random_state=3, rows_per_block=1000)
    again = make_digits(tmp_path / "b.npy", 3000, random_state=3, rows_per_block=1000)
    short = make_digits(tmp_path / "c.npy", 1234, random_state=3, rows_per_block=1000)
    other = make_digits(tmp_path / "d.npy", 3000, random_state=4, rows_per_block=1000)
    for name in ("X", "y", "source"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
        np.testing.assert_array_equal(getattr(first, name)[:1234], getattr(short, name))
    assert (first.X != other.X).any()
    assert (first.X[:1000] != first.X[1000:2000]).any()


def test_undeformed_digits_are_the_originals(tmp_path, monkeypatch):
    for knob in ("MAX_SHIFT", "MAX_ANGLE", "MAX_ZOOM", "NOISE"):
        monkeypatch.setattr(datasets, knob, 0.0)
    digits = make_digits(tmp_path / "digits.npy", 500)
    np.testing.assert_array_equal(digits.X, load_digits().data[digits.source] * 15)


def test_digits_teach_a_classifier_across_a_split_by_source(tmp_path):
    digits = make_digits(tmp_path / "digits.npy", 8000, random_state=1)
    test = digits.source % 5 == 0
    X = np.asarray(digits.X, np.float32)
    near = KNeighborsClassifier(1).fit(X[~test], digits.y[~test])
    assert near.score(X[test], digits.y[test]) > 0.85


def test_digits_from_some_originals(tmp_path):
    some = make_digits(tmp_path / "a.npy", 2000, originals=np.array([3, 5, 1700]))
    assert set(some.source) == {3, 5, 1700}
    np.testing.assert_array_equal(some.y, load_digits().target[some.source])
    every = make_digits(tmp_path / "b.npy", 2000, originals=np.arange(1797))
    np.testing.assert_array_equal(every.X, make_digits(tmp_path / "c.npy", 2000).X)
    for wrong, text in (
        ([], r"originals has shape \(0,\)"),
        ([0.5], "dtype float64; expected a list of whole numbers"),
        ([-1, 4], "originals has numbers from -1 to 4; pass numbers from 0 to 1796"),
        ([1797], "from 1797 to 1797"),
    ):
        with pytest.raises(InputError, match=text):
            make_digits(tmp_path / "d.npy", 5, originals=np.array(wrong))
