"""Laws that hold for every approximation: the markets of all families, each against its dense oracle."""

from __future__ import annotations

import pickle

import market_block_basis
import market_block_basis_sampled
import market_kals
import market_nystrom
import market_random_features
import market_structured
import numpy as np
import pytest
import scipy.sparse as sp
from approximation_market import MARKET as NESTED
from sklearn.base import clone

import gramian as gm
from gramian.approximations.explicit import ExplicitBuilder
from gramian.approximations.methods import METHODS

pytestmark = pytest.mark.whole  # a configuration is another method

FAMILIES = (
    market_block_basis,
    market_block_basis_sampled,
    market_kals,
    market_nystrom,
    market_random_features,
    market_structured,
)
MARKET = dict(NESTED)
for family in FAMILIES:
    MARKET |= {f"{family.__name__[7:]}: {name}": case for name, case in family.MARKET.items()}
EVERY = pytest.mark.parametrize("case", MARKET.values(), ids=MARKET.keys())


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    return rng.random((210, 3)), rng.random((50, 3))


def fitted(case, X, **parameters):
    a = clone(case.estimator).set_params(**parameters).fit(X)
    a.training_rows = X
    return a


def test_every_method_is_in_the_market():
    assert {type(case.estimator) for case in MARKET.values()} == set(METHODS.values())


@pytest.mark.parametrize("name", METHODS)
def test_few_rows_have_an_answer_and_a_rank_above_them_a_warning(name):
    X = np.random.default_rng(0).random((30, 3))
    model = METHODS[name](random_state=0)
    assert np.isfinite(model.fit(X).operator_.to_dense()).all()  # by default, without a warning
    size = "root_rank" if hasattr(model, "root_rank") else "rank"
    model.set_params(**{size: 70})
    if isinstance(METHODS[name]().builder(), ExplicitBuilder):  # whose rank the rows do not bound
        assert model.fit(X).rank_ == 70
        return
    with pytest.warns(UserWarning, match=f"{size}=70 is larger than n_samples = 30: .* Give {size} <= 30"):
        cut = model.fit(X).operator_.to_dense()
    np.testing.assert_array_equal(cut, model.set_params(**{size: 30}).fit(X).operator_.to_dense())


@EVERY
def test_operator_features_and_new_rows_equal_the_oracle(case, rows):
    X, new = rows
    a = fitted(case, X)
    K = case.oracle(a, X, X)
    np.testing.assert_allclose(a.operator_.to_dense(), K, atol=1e-10)
    F, G = (np.asarray(A.toarray() if sp.issparse(A) else A) for A in (a.transform(X), a.transform(new)))
    assert F.shape == (len(X), a.rank_)
    np.testing.assert_allclose(F @ F.T, K, atol=1e-10)
    np.testing.assert_allclose(G @ F.T, case.oracle(a, new, X), atol=1e-10)
    np.testing.assert_allclose(G @ G.T, case.oracle(a, new, new), atol=1e-10)
    np.testing.assert_allclose(a.cross(new) @ np.eye(len(X)), G @ F.T, atol=1e-10)


@EVERY
def test_a_row_has_the_same_features_whatever_is_around_it(case, rows):
    X, _ = rows
    a = fitted(case, X)
    picked = [3, 77, 12, 3]
    whole, part = (
        np.asarray(A.toarray() if sp.issparse(A) else A) for A in (a.transform(X), a.transform(X[picked]))
    )
    np.testing.assert_allclose(part, whole[picked], atol=1e-9)


@EVERY
def test_positive_semidefinite(case, rows):
    X, _ = rows
    K = fitted(case, X).operator_.to_dense()
    np.testing.assert_allclose(K, K.T, atol=1e-12)
    assert np.linalg.eigvalsh(K)[0] > -1e-9 * max(1.0, np.abs(K).max())


@EVERY
def test_float32_tiles_agree(case, rows):
    X, new = rows
    single = fitted(case, X, tile_dtype="float32")
    double = fitted(case, X)
    if isinstance(case.estimator, gm.BlockBasis) and case.estimator.max_bytes is not None:
        # Its bytes are more numbers in float32.
        assert single.rank_ > double.rank_
        return
    assert single.transform(X).dtype == np.float32
    A, B = (a.cross(new) @ np.eye(len(X)) for a in (single, double))
    assert np.linalg.norm(A - B) < 5e-3 * np.linalg.norm(B)


@EVERY
def test_same_seed_same_bits_for_any_threads_and_after_pickling(case, rows):
    X, new = rows
    one, many = fitted(case, X, n_jobs=1), fitted(case, X, n_jobs=3)
    K = one.operator_.to_dense()
    np.testing.assert_array_equal(K, many.operator_.to_dense())
    kept = pickle.loads(pickle.dumps(many))
    F, G = (
        np.asarray(A.toarray() if sp.issparse(A) else A) for A in (one.transform(new), kept.transform(new))
    )
    np.testing.assert_array_equal(F, G)


@EVERY
def test_model_files_give_the_same_bits(case, rows, tmp_path):
    X, new = rows
    model = gm.KernelRidge(approximation=clone(case.estimator), random_state=1, **inner(case)).fit(X, X[:, 0])
    gm.save(model, tmp_path / "m.gramian")
    np.testing.assert_array_equal(gm.load(tmp_path / "m.gramian").predict(new), model.predict(new))


def inner(case):
    """The parameters that a ridge takes instead of the approximation's own."""
    names = ("kernel", "gamma", "degree", "coef0", "tile_dtype")
    return {name: getattr(case.estimator, name) for name in names}


@EVERY
def test_ridge_solves_with_one_and_the_same_matrix(case, rows):
    # The hat matrix H = K̃ (K̃ + alpha I)⁻¹, from n targets at once, says what K̃ is, for every alpha the same.
    X, _ = rows
    n = len(X)

    def hat(alpha):
        model = gm.KernelRidge(alpha, approximation=clone(case.estimator), random_state=1, **inner(case))
        return model.fit(X, np.eye(n)).predict(X)

    wide = hat(0.5)
    np.testing.assert_allclose(wide, wide.T, atol=1e-8)
    values = np.linalg.eigvalsh(0.5 * (wide + wide.T))
    assert -1e-8 < values[0] <= values[-1] < 1.0
    K = 0.5 * wide @ np.linalg.inv(np.eye(n) - wide)
    np.testing.assert_allclose(hat(0.1), K @ np.linalg.inv(K + 0.1 * np.eye(n)), atol=1e-6)


@EVERY
def test_nothing_is_written_into_the_rows(case, rows):
    X = rows[0].copy()
    X.setflags(write=False)
    before = {k: repr(v) for k, v in case.estimator.get_params().items()}
    a = clone(case.estimator).fit(X)
    a.transform(X)
    assert {k: repr(v) for k, v in a.get_params().items()} == before


@EVERY
def test_sparse_rows_give_what_dense_rows_give(case, rows):
    X = np.where(rows[0] < 0.5, 0.0, rows[0])
    thick, thin = clone(case.estimator).fit(X), clone(case.estimator).fit(sp.csr_array(X))
    K, L = thick.operator_.to_dense(), thin.operator_.to_dense()
    # Landmarks that are drawn are the same; k-means on sparse rows sums in another order.
    assert np.linalg.norm(K - L) < 0.3 * np.linalg.norm(K)
    np.testing.assert_allclose(
        np.asarray(thin.cross(X[:5]) @ np.eye(len(X))),
        np.asarray(thin.cross(sp.csr_array(X[:5])) @ np.eye(len(X))),
        atol=1e-9,
    )
