"""GramDisplay: the arrays it shows, the panels it draws, what it says without matplotlib."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import gramian as gm
from gramian.data.source import ArraySource
from gramian.exceptions import InputError, MissingPackageError
from gramian.plotting import GramDisplay
from gramian.plotting.gram import TITLES, colour_range, error_text

pytest.importorskip("matplotlib").use("Agg")
from matplotlib import pyplot as plt


@pytest.fixture(scope="module")
def X():
    # Four well separated groups, in random order.
    rng = np.random.default_rng(0)
    return rng.normal(size=(400, 3)) * 0.3 + rng.integers(0, 2, (400, 3)) * [2.0, 2.0, 0.0]


@pytest.fixture(scope="module")
def meka(X):
    return gm.MEKA(gamma=0.5, rank=12, n_blocks=4, random_state=0).fit(X)


@pytest.fixture(scope="module")
def multiresolution(X):
    return gm.MultiResolution(gamma=0.5, root_rank=10, rank=8, n_blocks=20, random_state=0).fit(X)


@pytest.mark.parametrize("name", ["meka", "multiresolution"])
def test_matrices_are_those_of_the_estimator_on_new_rows(name, request, X):
    approximation = request.getfixturevalue(name)
    new = X + 0.01
    display = GramDisplay.from_estimator(approximation, new, n_rows=1000)
    assert display.gram.shape == (400, 400)
    # All rows, in an order that the kernel's entries with a fixed point reveal.
    position = {round(float(v), 9): i for i, v in enumerate(approximation.kernel_(new, new).sum(axis=1))}
    order = np.array([position[round(float(v), 9)] for v in display.gram.sum(axis=1)])
    assert sorted(order) == list(range(400))
    assert not (order == np.arange(400)).all()
    F = approximation.transform(new[order])
    F = F.toarray() if sp.issparse(F) else F
    np.testing.assert_allclose(display.approximate, F @ F.T, atol=1e-6)
    np.testing.assert_array_equal(display.labels, approximation.features_.partition.route(new[order]))


def test_block_errors_by_their_definition(meka, X):
    display = GramDisplay.from_estimator(meka, X, n_rows=150, random_state=3)
    difference = display.gram - display.approximate
    assert display.block_errors.shape == (4, 4)
    for i, s in enumerate(display.blocks):
        for j, t in enumerate(display.blocks):
            where = np.ix_(display.labels == s, display.labels == t)
            expected = np.linalg.norm(difference[where]) / np.linalg.norm(display.gram[where])
            assert display.block_errors[i, j] == pytest.approx(expected, rel=1e-9)
    whole = np.linalg.norm(difference) / np.linalg.norm(display.gram)
    assert display.relative_error == pytest.approx(whole, rel=1e-12)
    assert (np.diff(display.labels[display.order]) >= 0).all()
    assert display.sizes.sum() == 150


def test_zero_blocks_have_no_error_and_missed_ones_an_infinite_one():
    gram = np.eye(4)
    missed = np.eye(4)
    missed[0, 3] = missed[3, 0] = 0.1
    labels = np.array([0, 0, 5, 5])
    np.testing.assert_array_equal(GramDisplay(gram, gram, labels).block_errors, np.zeros((2, 2)))
    np.testing.assert_array_equal(
        GramDisplay(gram, missed, labels).block_errors, [[0.0, np.inf], [np.inf, 0.0]]
    )
    GramDisplay(gram, missed, labels).plot()


def test_figure_has_the_three_panels(meka, X, tmp_path):
    display = GramDisplay.from_estimator(meka, X, n_rows=120)
    assert len(display.axes_) == 3
    assert [ax.get_title().split("\n")[0] for ax in display.axes_] == list(TITLES)
    shuffled, ordered, errors = (np.asarray(ax.images[0].get_array()) for ax in display.axes_)
    np.testing.assert_array_equal(shuffled, display.gram)
    np.testing.assert_array_equal(ordered, display.gram[np.ix_(display.order, display.order)])
    np.testing.assert_array_equal(errors, display.block_errors)
    # Two bars beside the panels; three boundaries each way between four blocks; a number in each cell.
    assert len(display.figure_.axes) == 5
    assert len(display.axes_[1].lines) == 6
    assert len(display.axes_[2].texts) == 16
    assert [t.get_text() for t in display.axes_[1].get_xticklabels()] == ["0", "1", "2", "3"]
    # Ordered by block, the mass is on the diagonal blocks.
    same = display.labels[:, None] == display.labels[None, :]
    assert display.gram[same].mean() > 2 * display.gram[~same].mean()
    where = tmp_path / "gram.png"
    display.figure_.savefig(where, dpi=60)
    picture = plt.imread(where)
    assert picture.shape[1] > picture.shape[0] > 200
    assert picture[..., :3].std() > 0.05


def test_many_blocks_get_no_numbers(multiresolution, X):
    display = GramDisplay.from_estimator(multiresolution, X)
    assert len(display.blocks) > 12
    assert not display.axes_[2].texts
    labels = [t.get_text() for t in display.axes_[2].get_xticklabels()]
    assert labels == [str(b) for b in display.blocks[::2]]


def test_same_random_state_same_rows(meka, X):
    first = GramDisplay.from_estimator(meka, X, n_rows=50, random_state=1)
    again = GramDisplay.from_estimator(meka, X, n_rows=50, random_state=1)
    other = GramDisplay.from_estimator(meka, X, n_rows=50, random_state=2)
    np.testing.assert_array_equal(first.gram, again.gram)
    assert not np.array_equal(first.gram, other.gram)


def test_callers_axes(meka, X):
    figure, axes = plt.subplots(1, 3)
    display = GramDisplay.from_estimator(meka, X, n_rows=40, ax=axes)
    assert display.figure_ is figure
    assert list(display.axes_) == list(axes)
    figure, one = plt.subplots()
    assert display.plot(one).figure_ is figure
    assert len(display.axes_) == 3
    with pytest.raises(InputError, match=r"ax has 2 axes; expected 1 \(divided in three\) or 3"):
        display.plot(plt.subplots(1, 2)[1])
    with pytest.raises(InputError, match="not part of a grid of subplots"):
        display.plot(plt.figure().add_axes((0.1, 0.1, 0.8, 0.8)))


def test_sparse_rows():
    X = sp.random_array((120, 30), density=0.2, format="csr", rng=np.random.default_rng(0))
    meka = gm.MEKA(gamma=0.1, rank=10, n_blocks=3, random_state=0).fit(X)
    display = GramDisplay.from_estimator(meka, X, n_rows=60)
    np.testing.assert_allclose(np.diag(display.gram), 1.0)


def test_wrong_input(meka, X):
    with pytest.raises(InputError, match=r"approximation has type KernelRidge; expected a fitted approx"):
        GramDisplay.from_estimator(gm.KernelRidge(), X)
    with pytest.raises(NotFittedError):
        GramDisplay.from_estimator(gm.MEKA(), X)
    with pytest.raises(InputError, match="n_rows=0 must be a whole number of at least 1"):
        GramDisplay.from_estimator(meka, X, n_rows=0)
    with pytest.raises(InputError, match="X has 2 features, but MEKA is expecting 3"):
        GramDisplay.from_estimator(meka, ArraySource(X[:, :2]))


def test_without_matplotlib(meka, X, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'gramian\[plot\]'"):
        GramDisplay.from_estimator(meka, X)
    with pytest.raises(ImportError, match="not installed"):
        GramDisplay(np.eye(2), np.eye(2), np.zeros(2, int)).plot()


def test_error_texts_fit_a_cell():
    texts = list(map(error_text, (0.0, 0.0123, 0.99949, 0.9996, 12.3, 4e-4, 6e-4, 2e-9, 0.5, np.inf)))
    assert texts == ["0", ".012", ".999", "1", "12", "4e-04", ".001", "2e-09", ".500", "inf"]


def test_colour_range():
    assert colour_range(np.array([[-0.5, 1.0]]))[0] == -0.5
    low, high = colour_range(np.linspace(0, 1, 101))
    assert (low, high) == (0.0, pytest.approx(0.99))
    # Fewer than 1% of the entries away from zero.
    sparse = np.zeros((20, 20))
    sparse[0, 0] = 3.0
    assert colour_range(sparse) == (0.0, 3.0)
