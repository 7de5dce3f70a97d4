"""Laws of the explicit feature maps, and the statistics of what they draw."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as la
import scipy.sparse as sp
import scipy.stats as stats
from market_random_features import MARKET, drawn, fastfood_frequencies
from sklearn.base import clone

import gramian as gm
from gramian.approximations.polynomial_maps import RandomMaclaurin, TensorSketch
from gramian.approximations.random_fourier import Fastfood, RandomFourier, hadamard
from gramian.compression.builder import BuildSettings
from gramian.data.source import ArraySource
from gramian.engine import Engine
from gramian.estimator.parameters import KernelParameters
from gramian.kernels import Cauchy
from gramian.kernels.dot_products import maclaurin_series
from gramian.kernels.spectral import DRAWS, share_out, spectral_draws

EVERY = pytest.mark.parametrize("case", MARKET.values(), ids=MARKET.keys())
KINDS = (RandomFourier, Fastfood, RandomMaclaurin, TensorSketch)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    return rng.random((260, 3)), rng.random((70, 3))


def error(K, F):
    return float(np.linalg.norm(F @ F.T - K) / np.linalg.norm(K))


# ---- laws of every map ---------------------------------------------------------------------------


@EVERY
def test_sparse_rows_give_what_dense_rows_give(case):
    rng = np.random.default_rng(0)
    X = np.round(rng.random((300, 3)) * (rng.random((300, 3)) < 0.01), 2)
    X[:3] = [[0.0, 0.5, 0.0], [1.0, 0.0, 0.0], [0.25, 0.5, 0.75]]
    fitted = clone(case.estimator).fit(sp.csr_array(X))
    np.testing.assert_allclose(fitted.transform(sp.csr_array(X)), fitted.transform(X), atol=1e-12)
    np.testing.assert_array_equal(clone(case.estimator).fit(X).transform(X), fitted.transform(X))


def test_pairs_of_waves_have_exactly_the_kernel_s_diagonal(rows):
    X, _ = rows
    for kind in (RandomFourier, Fastfood):
        F = kind(gamma=3.0, rank=20, form="pairs", tile_dtype="float64", random_state=0).fit(X).transform(X)
        np.testing.assert_allclose((F**2).sum(axis=1), 1.0, rtol=1e-12)


class Counted(ArraySource):
    reads = 0
    taken = 0

    def rows(self, where):
        self.reads += 1
        return super().rows(where)

    def take(self, indices):
        self.taken += 1
        return super().take(indices)


@EVERY
def test_the_map_is_drawn_before_any_row_is_read(case, rows):
    source = Counted(rows[0])
    kernel = KernelParameters.given(case.estimator).resolve(3)
    settings = BuildSettings(kernel, np.dtype(float), np.random.default_rng(1), Engine(1))
    made = case.estimator.builder().build(source, settings)
    assert (source.reads, source.taken) == (0, 0)
    assert made.rank == case.estimator.rank


def test_rows_stream_through_one_pass(rows):
    X, _ = rows
    y = np.sin(5 * X[:, 0])
    outer = {"gamma": 3.0, "random_state": 0, "tile_dtype": "float64"}
    chosen = RandomFourier(rank=60)
    source = Counted(X)
    streamed = gm.KernelRidge(approximation=chosen, **outer).fit(source, y)
    assert source.taken <= 1  # of them the probe's
    np.testing.assert_array_equal(
        streamed.predict(X), gm.KernelRidge(approximation=chosen, **outer).fit(X, y).predict(X)
    )


@pytest.mark.parametrize(
    ("name", "kernel"),
    [("randomfourier", "rbf"), ("fastfood", "rbf"), ("randommaclaurin", "poly"), ("tensorsketch", "poly")],
)
def test_methods_by_name(name, kernel, rows):
    X, new = rows
    y = np.sin(5 * X[:, 0])
    settings = {"kernel": kernel, "gamma": 1.0, "random_state": 0, "alpha": 0.01}
    model = gm.KernelRidge(approximation=name, **settings).fit(X, y)
    exact = gm.KernelRidge(approximation="exact", **settings).fit(X, y)
    assert model.rank_ == 1000
    assert np.abs(model.predict(new) - exact.predict(new)).max() < 0.1


def test_plan_of_more_features_than_rows_counts_the_sums(rows):
    model = gm.KernelRidge(approximation=RandomFourier(rank=2000), random_state=0).fit(rows[0], rows[0][:, 0])
    assert model.plan_.bytes["sums"] > model.plan_.used_bytes["sums"] > 8 * 2000**2


def test_plan_counts_the_map_and_not_its_square():
    plan = RandomFourier(rank=20_000).plan(np.zeros((50, 40)))
    assert plan.root_rank == 20_000
    assert plan.peak_bytes < 100_000_000
    with pytest.raises(gm.BudgetError, match=r"memory_budget=100 kB is too small for root_rank=20000"):
        RandomFourier(rank=20_000, memory_budget="100KB").plan(np.zeros((50, 40)))


HARD = {
    "one row": np.ones((1, 2)),
    "constant": np.full((50, 2), 3.0),
    "zeros": np.zeros((5, 3)),
    "one feature": np.arange(30.0)[:, None] / 10,
    "many features": np.random.default_rng(0).random((20, 300)) / 10,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("X", HARD.values(), ids=HARD.keys())
def test_hard_tables_have_an_answer(kind, X):
    fitted = kind(gamma=1.0, rank=2000, random_state=0).fit(X)
    exact = fitted.kernel_(X)
    assert np.abs(fitted.operator_.to_dense() - exact).max() < 0.3 * exact.max() + 0.1


@pytest.mark.parametrize("kind", [RandomFourier, Fastfood])
@pytest.mark.parametrize("form", ["pairs", "phase"])
def test_float32_far_from_the_origin(kind, form, rows):
    X = np.round(rows[0] * 64) / 64
    near = kind(gamma=3.0, rank=400, form=form, tile_dtype="float32", random_state=0).fit(X)
    far = near.transform(X + 2.0**20)
    if form == "pairs":
        np.testing.assert_allclose(far @ far.T, near.operator_.to_dense(), atol=2e-5)
    assert error(near.kernel_(X), far) < 0.2


# ---- what is drawn -------------------------------------------------------------------------------

KERNELS = {
    "gaussian": gm.Gaussian((1.0, 0.5, 2.0)),
    "laplacian": gm.Laplacian(2.0),
    "exponential": gm.Exponential(1.5),
    "matern32": gm.Matern((1.0, 0.5, 2.0), nu=1.5),
    "matern52": gm.Matern(0.7, nu=2.5),
    "matern12": gm.Matern(0.7, nu=0.5),
    "rational": gm.RationalQuadratic(0.8, shape=2.5),
    "cauchy": Cauchy(1.2),
    "scaled": 3.0 * Cauchy(1.2),
    "sum": gm.Gaussian(0.5) + 2.0 * gm.Laplacian(3.0),
    "product": (gm.Gaussian() + 0.5 * Cauchy(0.5)) * gm.Matern(1.0),
}


@pytest.mark.parametrize("kind", DRAWS)
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS.keys())
def test_the_mean_over_draws_is_the_kernel(kernel, kind):
    X = np.random.default_rng(0).random((25, 3)) * 1.5
    gaps = (X[:, None] - X[None]).reshape(-1, 3)
    exact = kernel(X).ravel()
    found = []
    for seed in range(60):
        frequencies, weights = spectral_draws(kernel, 64, 3, np.random.default_rng(seed), kind)
        assert frequencies.shape == (64, 3)
        assert weights.sum() == pytest.approx(exact[0])
        found.append(np.cos(gaps @ frequencies.T) @ weights)
    mean, deviation = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(59)
    # In standard errors: 1 by law; entries of a matrix go together, so that there is a spread.
    assert np.sqrt(np.mean((mean - exact)[deviation > 1e-12] ** 2 / deviation[deviation > 1e-12] ** 2)) < 2.0


@pytest.mark.parametrize("kind", DRAWS)
def test_frequencies_have_the_spectral_law(kind):
    rng = np.random.default_rng(0)

    def drawn_of(kernel):
        return spectral_draws(kernel, 4096, 2, rng, kind)[0]

    laws = {
        gm.Gaussian(2.0): stats.norm(scale=0.5),
        gm.Laplacian(2.0): stats.cauchy(scale=0.5),
        gm.Exponential(2.0): stats.t(1, scale=0.5),
        gm.Matern(2.0, nu=1.5): stats.t(3, scale=0.5),
        gm.Matern(2.0, nu=2.5): stats.t(5, scale=0.5),
        Cauchy(1.0): stats.laplace(),
    }
    for kernel, law in laws.items():
        for column in drawn_of(kernel).T:
            assert stats.kstest(column, law.cdf).pvalue > 1e-4


def test_orthogonal_directions_within_each_group():
    W = spectral_draws(gm.Matern(1.0), 11, 4, np.random.default_rng(0), "orthogonal")[0]
    for start in (0, 4, 8):
        group = W[start : start + 4]
        directions = group / np.linalg.norm(group, axis=1)[:, None]
        np.testing.assert_allclose(directions @ directions.T, np.eye(len(group)), atol=1e-12)


def mean_error(estimator, X, seeds=12):
    fits = [clone(estimator).set_params(random_state=seed).fit(X) for seed in range(seeds)]
    return np.mean([error(fitted.kernel_(X), fitted.transform(X)) for fitted in fits])


def test_error_falls_as_the_root_of_the_rank(rows):
    X = rows[0][:120]
    gaussian, square = gm.Gaussian(0.5), gm.Polynomial(1.0, degree=2)
    for a in (
        RandomFourier(gaussian, draws="iid"),
        Fastfood(gaussian),
        RandomMaclaurin(square),
        TensorSketch(square),
    ):
        few, many = (mean_error(clone(a).set_params(rank=rank), X) for rank in (64, 1024))
        # 4 by law; a sketch with far more buckets than monomials has no collisions left.
        assert 2.5 < few / many < (64 if isinstance(a, TensorSketch) else 6.4), a


@pytest.mark.slow
def test_the_better_draws_are_better(rows):
    X = rows[0][:120]
    for kernel in (gm.Gaussian(1.0), gm.Matern(1.0, nu=2.5), gm.Exponential(1.0), gm.Laplacian(2.0)):
        iid, orthogonal, sobol = (
            mean_error(RandomFourier(kernel, rank=256, draws=kind), X, 30)
            for kind in ("iid", "orthogonal", "qmc")
        )
        assert sobol < orthogonal < 0.95 * iid
    pairs, phase = (
        mean_error(RandomFourier(gm.Gaussian(1.0), rank=256, form=f), X) for f in ("pairs", "phase")
    )
    assert pairs < phase


def test_shared_powers_beat_drawn_ones():
    X = np.random.default_rng(0).standard_normal((120, 8))
    kernel = gm.Polynomial(8**0.5, degree=4)
    shared, exact, by_paper = (
        mean_error(RandomMaclaurin(kernel, rank=500, **own), X)
        for own in ({}, {"exact_low": True}, {"powers": "drawn"})
    )
    assert exact < shared < 0.8 * by_paper


def test_linear_kernel_is_exact_where_it_can_be(rows):
    X, _ = rows
    for a in (TensorSketch("linear", rank=400), RandomMaclaurin("linear", rank=10, exact_low=True)):
        fitted = a.set_params(random_state=1).fit(X)
        np.testing.assert_allclose(fitted.operator_.to_dense(), X @ X.T, atol=1e-12)
    assert fitted.rank_ == 4


def test_fastfood_frequencies_have_the_gaussian_law():
    lengths = []
    for seed in range(40):
        fitted = Fastfood(gm.Gaussian(2.0), rank=64, random_state=seed).fit(np.zeros((1, 5)))
        lengths.append(2.0 * fastfood_frequencies(drawn(fitted)))
    assert stats.kstest(np.concatenate(lengths).ravel()[::3], stats.norm.cdf).pvalue > 1e-4
    assert np.abs(np.concatenate(lengths).mean()) < 0.05


@pytest.mark.slow
def test_hadamard_transform_is_sylvesters():
    for bits in (*range(11), 13):
        x = np.random.default_rng(bits).standard_normal((3, 2**bits)).astype(np.float32)
        expected = x @ la.hadamard(2**bits, dtype=np.int8).astype(np.float32)
        np.testing.assert_allclose(hadamard(x, np.empty_like(x)), expected, atol=2e-3)


def test_shares_are_whole_positive_and_near():
    assert share_out(10, np.array([1.0, 2.0, 0.0])).tolist() == [3, 6, 1]
    assert share_out(3, np.array([1e9, 1.0, 1.0])).tolist() == [1, 1, 1]


def test_series_follow_the_kernels_algebra():
    kernel = 0.5 * gm.Linear(2.0) + gm.Polynomial(2.0, degree=2, offset=3.0) * gm.Linear(1.0)
    series = maclaurin_series(kernel)
    X = np.random.default_rng(0).random((6, 4))
    G = X @ X.T / 4.0
    np.testing.assert_allclose(np.polynomial.polynomial.polyval(G, series.coefficients), kernel(X))
    assert series.lengthscale == 2.0


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "words"),
    [
        (RandomFourier("poly"), r"Polynomial\(.*\) has no known spectral measure, .* Give one of Gaussian, "
         r".* take TensorSketch or RandomMaclaurin for a polynomial kernel, Nystrom for any other\."),
        (RandomFourier("cosine"), r"Cosine\(.*\) has no known spectral measure"),
        (RandomFourier(lambda A, B: A @ B.T), r"FunctionKernel\(.*\) has no known spectral measure"),
        (RandomFourier(gm.Gaussian() * gm.Linear()), r"Linear\(.*\) has no known spectral measure"),
        (RandomFourier(rank=7), r"rank=7 is odd, but form='pairs' gives .* Pass an even rank, or form="),
        (Fastfood(rank=7), r"rank=7 is odd"),
        (RandomFourier(draws="sobol"), r"draws='sobol' is unknown\. Choose one of iid, orthogonal, qmc\."),
        (RandomFourier(form="pair"), r"form='pair' is unknown\. Choose one of pairs, phase\. Did you mean"),
        (Fastfood(form="sin"), r"form='sin' is unknown"),
        (RandomFourier(rank=0), r"rank=0 must be a whole number of at least 1\."),
        (RandomFourier(gm.Gaussian() + Cauchy() + gm.Laplacian(), rank=4),
         r"2 frequencies cannot be divided among the 3 terms of .* Raise rank"),
        (Fastfood("laplacian"), r"Fastfood cannot take Laplacian\(.*\): .* or take RandomFourier\."),
        (Fastfood(gm.Gaussian() + Cauchy()), r"Fastfood cannot take Sum\("),
        (Fastfood("linear"), r"Linear\(.*\) has no known spectral measure"),
        (RandomMaclaurin("rbf"), r"Gaussian\(.*\) has no known power series in x·z, .* Give Linear or "
         r"Polynomial; take RandomFourier for a kernel of x − z, Nystrom for any other\."),
        (RandomMaclaurin(powers="all"), r"powers='all' is unknown\. Choose one of shared, drawn\."),
        (RandomMaclaurin(rank=3), r"rank=3 leaves 3 features for the 4 powers of x·z in the kernel; "),
        (RandomMaclaurin(rank=5, exact_low=True),
         r"rank=5 leaves 1 features for the 2 powers of x·z in the "
         r"kernel beside the exact terms; each needs one\. Raise rank, or pass exact_low="),
        (RandomMaclaurin("linear", rank=3, exact_low=True), r"rank=3 leaves -1 features for the 0 powers"),
        (RandomMaclaurin(gm.Linear((1.0, 2.0, 3.0)) + gm.Linear()),
         r"the parts of the kernel have the lengthscales 1\.0 and \(1\.0, 2\.0, 3\.0\), so it is not"),
        (TensorSketch("rbf"), r"TensorSketch cannot take Gaussian\(.*\): .* RandomFourier for a kernel of"),
        (TensorSketch(gm.Linear() + gm.Linear()), r"TensorSketch cannot take Sum\(.* take RandomMaclaurin"),
        (TensorSketch(rank=1.5), r"rank=1\.5 must be a whole number"),
    ],
)  # fmt: skip
def test_refusals_say_what_to_do(estimator, words, rows):
    with pytest.raises(gm.InputError, match=words):
        estimator.fit(rows[0])
    assert not hasattr(estimator, "features_")


def test_too_many_coordinates_for_sobol_and_unknown_draws():
    with pytest.raises(
        gm.InputError, match=r"draws='qmc' needs 21202 coordinates, but .* has 21201\. Use draws="
    ):
        spectral_draws(Cauchy(), 2, 21_201, np.random.default_rng(0), "qmc")
    with pytest.raises(
        gm.InputError, match=r"draws='halton' is unknown\. Choose one of iid, orthogonal, qmc\."
    ):
        spectral_draws(Cauchy(), 2, 2, np.random.default_rng(0), "halton")
