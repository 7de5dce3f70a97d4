"""float32 rows whose squares overflow or vanish get the answer of the same rows as float64."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import gramian as gm
from gramian.exceptions import InputError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 2)).astype(np.float32)
Y = np.sin(2.0 * X[:, 0].astype(float))
MODELS = {
    "exact": lambda: gm.KernelRidge(approximation="exact"),
    "meka": lambda: gm.KernelRidge(approximation=gm.MEKA(rank=8, n_blocks=4), random_state=0),
    "levels": lambda: gm.KernelRidge(
        approximation=gm.MultiResolution(root_rank=8, rank=4, n_blocks=4), random_state=0
    ),
    "tree": lambda: gm.KernelRidge(
        approximation=gm.MEKA(rank=8, n_blocks=4, partition="tree"), random_state=0
    ),
    "standardize": lambda: gm.KernelRidge(standardize=True, random_state=0),
    "svr": lambda: gm.KernelSVR(random_state=0),
    "gp": lambda: gm.GaussianProcessRegressor(optimizer=None, random_state=0),
    "dcpred": lambda: gm.DCPredRegressor(n_leaves=4, random_state=0),
    "fast": lambda: gm.FastKernelRegressor(
        learn="labels", n_levels=1, n_units=2, n_directions=2, random_state=0
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("size", "numbers"), [(1e20, "one"), (1e20, "all"), (1e-25, "all")])
def test_the_answers_are_those_of_float64(name, size, numbers):
    rows = X.copy()
    rows[(3, 1) if numbers == "one" else slice(None)] *= np.float32(size)
    found = {}
    for dtype in (np.float32, np.float64):
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            model = MODELS[name]().fit(rows.astype(dtype), Y)
            found[dtype] = model.predict(rows.astype(dtype))
    np.testing.assert_array_equal(found[np.float32], found[np.float64])


def test_sparse_rows_too():
    rows = sp.csr_array(X * (X > 0)).astype(np.float32)
    rows.data[5] = 1e30
    found = [
        gm.KernelRidge(approximation=gm.Nystrom(rank=10), random_state=0).fit(part, Y).predict(part)
        for part in (rows, rows.astype(np.float64))
    ]
    np.testing.assert_array_equal(*found)


def test_rows_of_a_file_are_refused_with_what_to_do(tmp_path):
    rows = X.copy()
    rows[7, 1] = 1e20
    np.save(tmp_path / "x.npy", rows)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    source = gm.data.ArraySource(mapped)
    said = r"X holds 1e\+20 in row 7, column 1 .*beyond 1e\+17 are refused in rows of float32.*as float64, or"
    with pytest.raises(InputError, match=said):
        gm.KernelRidge(random_state=0).fit(source, Y)


def test_plain_rows_stay_as_they_are():
    assert gm.KernelRidge(approximation="exact").fit(X, Y).predictor_.rows.dtype == np.float32
