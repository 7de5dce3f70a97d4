"""SpectrumDisplay, AlphaPathDisplay and PosteriorDisplay: their numbers, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor as Peer
from sklearn.linear_model import LinearRegression

import gramian as gm
from gramian.exceptions import InputError

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
from gramian.plotting import AlphaPathDisplay, PosteriorDisplay, SpectrumDisplay

GAMMA = 2.0


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.random((200, 2))
    return X, np.sin(6 * X[:, 0]) + 0.1 * rng.standard_normal(200)


def gram(X):
    return np.exp(-GAMMA * ((X[:, None] - X[None]) ** 2).sum(axis=2))


def texts(ax):
    legend = [] if ax.get_legend() is None else ax.get_legend().get_texts()
    return [text.get_text() for text in (*ax.texts, *legend)] + [ax.get_title(loc="left")]


@pytest.mark.parametrize("diagonal", [False, True])
def test_spectra_are_those_of_both_matrices(data, diagonal):
    X, _ = data
    a = gm.BlockBasis(gamma=GAMMA, rank=4, n_blocks=3, diagonal=diagonal, tile_dtype="float64").fit(X)
    display = SpectrumDisplay.from_estimator(a, X, alpha=0.05)
    np.testing.assert_allclose(display.exact, np.linalg.eigvalsh(gram(X))[::-1] / 200, atol=1e-12)
    dense = np.linalg.eigvalsh(a.operator_.to_dense(force=True))[::-1] / 200
    np.testing.assert_allclose(display.approximate, dense[: len(display.approximate)], atol=1e-12)
    exact, close = display.effective_dimension
    assert exact[0] == pytest.approx(np.trace(np.linalg.solve(gram(X) + 0.05 * np.eye(200), gram(X))))
    assert close[0] == pytest.approx(a.operator_.leverages(0.05).sum())
    # What is drawn: the eigenvalues above rounding, the rank, alpha/n.
    shown = display.lines_[0].get_xydata()
    np.testing.assert_array_equal(shown[:, 1], display.exact[: len(shown)])
    np.testing.assert_array_equal(shown[:, 0], np.arange(1, len(shown) + 1))
    assert shown[-1, 1] > 200 * np.finfo(float).eps * display.exact[0]
    assert display.rank_line_.get_xdata()[0] == a.rank_ == display.rank
    assert display.alpha_lines_[0].get_ydata()[0] == pytest.approx(0.05 / 200)
    assert f"rank {a.rank_}" in texts(display.ax_)
    assert f"Effective dimension {exact[0]:.3g} of K, {close[0]:.3g} of K̃" in texts(display.ax_)
    assert "200 rows" in texts(display.ax_)


def test_spectrum_of_a_sample_and_without_alpha(data):
    X, _ = data
    a = gm.Nystrom(gamma=GAMMA, rank=10, random_state=0).fit(X)
    display = SpectrumDisplay.from_estimator(a, X, n_rows=50, random_state=1)
    assert display.exact.shape == (50,)
    assert "50 rows sampled from 200" in texts(display.ax_)
    assert (display.alpha, display.effective_dimension, display.alpha_lines_) == (None, None, [])
    assert display.exact.sum() == pytest.approx(1.0)  # the mean of k(x, x)


@pytest.mark.slow
def test_spectra_of_models(data):
    X, y = data
    nystrom = gm.Nystrom(rank=12)
    ridge = gm.KernelRidge(0.3, gamma=GAMMA, approximation=nystrom, random_state=0).fit(X, y)
    display = SpectrumDisplay.from_estimator(ridge, X)
    assert (display.rank, display.alpha[0]) == (12, pytest.approx(0.3 / 200))
    assert display.approximate[0] == pytest.approx(display.exact[0], rel=1e-2)
    labels = gm.KernelRidgeClassifier(0.3, gamma=GAMMA, approximation=nystrom, random_state=0).fit(X, y > 0)
    assert SpectrumDisplay.from_estimator(labels, X).rank == 12
    exact = gm.KernelRidge(0.3, gamma=GAMMA, approximation=gm.Exact()).fit(X, y)
    display = SpectrumDisplay.from_estimator(exact, X)
    assert display.approximate is None
    assert len(display.lines_) == 1
    np.testing.assert_allclose(display.exact, np.linalg.eigvalsh(gram(X))[::-1] / 200, atol=1e-12)
    both = gm.KernelRidgeCV(
        [0.01, 0.1, 1.0], gamma=GAMMA, alpha_per_target=True, approximation=nystrom, random_state=0
    ).fit(X, np.column_stack([y, np.random.default_rng(0).standard_normal(200)]))
    display = SpectrumDisplay.from_estimator(both, X)
    np.testing.assert_allclose(display.alpha, np.unique(both.alpha_) / 200)
    assert len(display.alpha_lines_) == len(display.alpha)
    stored = gm.KernelRidge(0.3, kernel="precomputed", approximation=nystrom, random_state=0).fit(gram(X), y)
    precomputed = SpectrumDisplay.from_estimator(stored, gram(X))
    np.testing.assert_allclose(precomputed.exact, np.linalg.eigvalsh(gram(X))[::-1] / 200, atol=1e-12)


def test_spectrum_of_a_gaussian_process_is_of_what_it_is(data):
    X, y = data
    gp = gm.GaussianProcessRegressor(1.0 * gm.Gaussian(0.5), optimizer=None).fit(X, y)
    display = SpectrumDisplay.from_estimator(gp, X)
    expected = np.linalg.eigvalsh(gp.kernel_(X, dtype=np.float64))[::-1] / 200
    np.testing.assert_allclose(display.exact, expected, atol=1e-9 * expected[0])
    np.testing.assert_allclose(display.approximate[:10], expected[:10], rtol=1e-6)
    assert display.alpha[0] == pytest.approx(gp.noise_ / 200)


def test_spectrum_refuses(data):
    X, _ = data
    with pytest.raises(InputError, match="model has type LinearRegression; expected a fitted approximation"):
        SpectrumDisplay.from_estimator(LinearRegression(), X)
    for model in (gm.MEKA(), gm.KernelRidge(), gm.GaussianProcessRegressor()):
        with pytest.raises(NotFittedError):
            SpectrumDisplay.from_estimator(model, X)
    with pytest.raises(InputError, match="n_rows=1 must be a whole number of at least 2"):
        SpectrumDisplay.from_estimator(gm.MEKA(n_blocks=2, rank=4).fit(X), X, n_rows=1)
    with pytest.raises(InputError, match="alpha=-1 must be a positive"):
        SpectrumDisplay.from_estimator(gm.MEKA(n_blocks=2, rank=4).fit(X), X, alpha=-1)
    for bad in ([], [np.nan], [-1.0]):
        with pytest.raises(InputError, match="eigenvalues must be finite numbers of which one is positive"):
            SpectrumDisplay(bad)


def test_path_draws_every_score_and_marks_the_choice(data):
    X, y = data
    alphas = [1.0, 1e-3, 0.03]
    model = gm.KernelRidgeCV(alphas, gammas=[0.5, 5.0], random_state=0).fit(X, y)
    display = AlphaPathDisplay.from_estimator(model)
    found = model.cv_results_
    for k, line in enumerate(display.lines_):
        order = np.argsort(alphas)
        np.testing.assert_array_equal(line.get_xdata(), np.sort(alphas))
        np.testing.assert_array_equal(line.get_ydata(), -found["scores"][order, k])
    (x, mark) = display.mark_.get_xydata()[0]
    assert (x, mark) == (model.alpha_, pytest.approx(-model.best_score_))
    assert found["gammas"][display.chosen[1]] == model.gamma_
    assert {"gamma 0.5", "gamma 5"} <= set(texts(display.ax_))
    assert display.ax_.get_ylabel() == "Mean squared error, leave-one-out"
    ticks = [text.get_text() for text in display.top_.get_xticklabels()]
    freedom = found["degrees_of_freedom"][np.argsort(alphas), display.chosen[1]]
    assert ticks == [f"{value:.1f}" for value in freedom]
    # The band is one standard error about the chosen line.
    corners = display.ax_.collections[0].get_paths()[0].vertices
    k = display.chosen[1]
    assert corners[:, 1].max() == pytest.approx((found["standard_errors"] - found["scores"])[:, k].max())


def test_path_of_scores_of_folds_and_of_outputs(data):
    X, y = data
    scored = gm.KernelRidgeCV([0.01, 1.0], gamma=2.0, cv=3, scoring="r2").fit(X, y)
    display = AlphaPathDisplay.from_estimator(scored)
    assert (display.is_error, display.score_name) == (False, "r2, held-out folds")
    assert display.degrees_of_freedom is display.top_ is None
    assert display.mark_.get_ydata()[0] == pytest.approx(scored.best_score_)
    absolute = gm.KernelRidgeCV([0.01, 1.0], cv="gcv", scoring="neg_mean_absolute_error").fit(X, y)
    assert AlphaPathDisplay.from_estimator(absolute).score_name.startswith("Mean absolute error, generalised")
    Y = np.column_stack([y, np.random.default_rng(0).standard_normal(200)])
    each = gm.KernelRidgeCV([1e-4, 0.1, 100.0], gamma=2.0, alpha_per_target=True).fit(X, Y)
    for j in range(2):
        display = AlphaPathDisplay.from_estimator(each, output=j)
        assert display.alphas[display.chosen[0]] == each.alpha_[j]
        np.testing.assert_array_equal(display.scores, each.cv_results_["scores"][:, :, j])
    with pytest.raises(InputError, match="output=2 is none of the model's 2 outputs"):
        AlphaPathDisplay.from_estimator(each, output=2)


def test_path_marks_nothing_where_the_kernel_was_refined_and_dashes_what_was_dropped(data):
    X, y = data
    model = gm.KernelRidgeCV([1e-3, 0.1], gamma=0.01, refine="lengthscales", random_state=0).fit(X, y)
    assert model.refinement_.kept
    display = AlphaPathDisplay.from_estimator(model)
    assert display.chosen is display.mark_ is None
    assert "Held-out error of every alpha, before refinement" in texts(display.ax_)
    dropped = AlphaPathDisplay([1, 2], -np.ones((2, 2)), (0, 0), gammas=[1, 2], n_rows=[900, 100]).plot()
    assert [line.get_linestyle() for line in dropped.lines_] == ["-", "--"]
    assert any("dashed: dropped on a part of the 900 rows" in text for text in texts(dropped.ax_))


def test_path_survives_a_model_file(data, tmp_path):
    X, y = data
    model = gm.KernelRidgeCV([1e-3, 0.1], gammas=[1.0, 5.0], random_state=0).fit(X, y)
    gm.save(model, tmp_path / "model.gramian")
    again = AlphaPathDisplay.from_estimator(gm.load(tmp_path / "model.gramian"))
    np.testing.assert_array_equal(again.degrees_of_freedom, model.cv_results_["degrees_of_freedom"])


def test_path_refuses(data):
    X, y = data
    with pytest.raises(InputError, match="model has type KernelRidge; expected a fitted KernelRidgeCV"):
        AlphaPathDisplay.from_estimator(gm.KernelRidge())
    with pytest.raises(NotFittedError, match="This KernelRidgeCV is not fitted yet, so it has no path"):
        AlphaPathDisplay.from_estimator(gm.KernelRidgeCV())
    with pytest.raises(InputError, match="the model compared one alpha, which is no path"):
        AlphaPathDisplay.from_estimator(gm.KernelRidgeCV([0.1]).fit(X, y))
    with pytest.raises(InputError, match="output=1: the model chose one alpha for all outputs"):
        AlphaPathDisplay.from_estimator(gm.KernelRidgeCV([0.1, 1.0]).fit(X, y), output=1)
    with pytest.raises(
        InputError, match=r"scores has shape \(3,\), but there are 2 alphas; expected \(2, ga"
    ):
        AlphaPathDisplay([1, 2], [1, 2, 3], None)
    with pytest.raises(InputError, match=r"gammas has shape \(2,\); expected \(1,\), as scores has it"):
        AlphaPathDisplay([1, 2], [[1], [2]], None, gammas=[1, 2])


@pytest.fixture(scope="module")
def line():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 10, (80, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(80)
    return X, y, gm.GaussianProcessRegressor(1.0 * gm.Gaussian(1.0), noise=0.02, optimizer=None).fit(X, y)


def test_band_is_that_of_the_process(line):
    X, y, gp = line
    display = PosteriorDisplay.from_estimator(
        gp, X, y, n_points=30, sample_kw={"n_samples": 2, "random_state": 3}
    )
    assert (display.grid.min(), display.grid.max()) < (X.min(), X.max() + 1.0)
    mean, std = gp.predict(display.grid[:, None], return_std=True)
    np.testing.assert_allclose(display.mean, mean)
    np.testing.assert_allclose(display.high - display.mean, 1.6448536269514722 * std)
    np.testing.assert_array_equal(display.line_.get_ydata(), display.mean)
    np.testing.assert_array_equal(display.points_.get_xydata(), np.column_stack([X[:, 0], y]))
    drawn = gp.sample_y(display.grid[:, None], 2, random_state=3)
    np.testing.assert_array_equal(np.column_stack([s.get_ydata() for s in display.samples_]), drawn)
    names = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert names == ["mean", "90 % band of the function", "draws of the function", "80 rows"]
    noisy = PosteriorDisplay.from_estimator(gp, X, y, n_points=30, include_noise=True, level=0.5)
    wide = gp.predict(noisy.grid[:, None], return_std=True, include_noise=True)[1]
    np.testing.assert_allclose(noisy.high - noisy.mean, 0.6744897501960817 * wide)
    corners = noisy.band_.get_paths()[0].vertices[:, 1]
    assert (corners.min(), corners.max()) == (noisy.low.min(), noisy.high.max())


def test_rows_without_targets_are_ticks(line):
    X, _, gp = line
    display = PosteriorDisplay.from_estimator(gp, X, n_points=10)
    assert display.points_.get_marker() == "|"
    np.testing.assert_array_equal(display.points_.get_xdata(), X[:, 0])


def test_a_slice_holds_the_other_features_at_their_medians():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((60, 3)), columns=["age", "income", "size"])
    Y = np.column_stack([frame["income"] * 2.0, frame["age"]])
    gp = gm.GaussianProcessRegressor(1.0 * gm.Gaussian(0.5), optimizer=None).fit(frame, Y)
    display = PosteriorDisplay.from_estimator(gp, frame, Y, feature="income", output=1, n_points=5)
    at = np.tile(frame.median().to_numpy(), (5, 1))
    at[:, 1] = display.grid
    expected = gp.predict(pd.DataFrame(at, columns=frame.columns))
    np.testing.assert_allclose(display.mean, expected[:, 1])
    np.testing.assert_array_equal(display.targets, Y[:, 1])
    median = frame.median()
    assert display.ax_.get_xlabel() == f"income   (age = {median['age']:.3g}, size = {median['size']:.3g})"
    with pytest.raises(InputError, match=r"feature='incom' is no column of X. Did you mean 'income'\?"):
        PosteriorDisplay.from_estimator(gp, frame, feature="incom")


def test_scikit_learns_process_too(line):
    X, y, _ = line
    peer = Peer(alpha=0.01, optimizer=None).fit(X, y)
    display = PosteriorDisplay.from_estimator(peer, X, y, n_points=20, sample_kw={"n_samples": 1})
    np.testing.assert_allclose(display.std, peer.predict(display.grid[:, None], return_std=True)[1])
    with pytest.raises(InputError, match="include_noise=True, but GaussianProcessRegressor has no such opt"):
        PosteriorDisplay.from_estimator(peer, X, y, include_noise=True)


def test_band_refuses(line):
    X, y, gp = line
    with pytest.raises(InputError, match="model has type KernelRidge, which predicts no deviations"):
        PosteriorDisplay.from_estimator(gm.KernelRidge(), X)
    with pytest.raises(NotFittedError):
        PosteriorDisplay.from_estimator(gm.GaussianProcessRegressor(), X)
    with pytest.raises(InputError, match="feature=1 is no column of X, which has 1"):
        PosteriorDisplay.from_estimator(gp, X, feature=1)
    with pytest.raises(InputError, match=r"output=1 is none of the 1. Give a number from 0 to 0"):
        PosteriorDisplay.from_estimator(gp, X, y, output=1)
    with pytest.raises(InputError, match="y has 79 targets, but X has 80 rows"):
        PosteriorDisplay.from_estimator(gp, X, y[:-1])
    with pytest.raises(InputError, match=r"X is sparse; .* Pass X.toarray\(\)"):
        PosteriorDisplay.from_estimator(gp, sp.csr_array(X))
    with pytest.raises(InputError, match=r"X has shape \(80,\) and dtype float64; expected rows of numbers"):
        PosteriorDisplay.from_estimator(gp, X[:, 0])
    with pytest.raises(InputError, match=r"level=90 is no share between 0 and 1. Give 0.9 for a 90 % band"):
        PosteriorDisplay.from_estimator(gp, X, level=90)
