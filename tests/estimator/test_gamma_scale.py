"""gamma="scale" is 1/(n_features · X.var()), as in scikit-learn, in every estimator that has a gamma."""

import numpy as np
import pytest
import scipy.sparse as sp
from every_estimator import ESTIMATORS, HOSTS, LABELS, QUICK, Y, parameters
from sklearn.base import clone, is_classifier
from sklearn.svm import SVC

import gramian as gm
from gramian.data.source import as_source
from gramian.estimator.parameters import KernelParameters

X = np.random.default_rng(0).random((60, 3)) * [1.0, 5.0, 2.0]
GAMMA = KernelParameters(gamma="scale").settled(as_source(X)).gamma
TAKING = [name for name, kind in ESTIMATORS.items() if name not in HOSTS and "gamma" in parameters(kind)]


def _answers(model):
    found = (model.predict if hasattr(model, "predict") else model.transform)(X)
    return found.toarray() if sp.issparse(found) else np.asarray(found)


@pytest.mark.parametrize("name", TAKING)
def test_it_is_the_number_that_it_stands_for(name):
    kind = ESTIMATORS[name]
    fixed = {"random_state": 0} if "random_state" in parameters(kind) else {}
    options, y = {**QUICK.get(name, {}), **fixed}, LABELS if is_classifier(kind()) else Y
    found, want = (_answers(kind(gamma=gamma, **options).fit(X, y)) for gamma in ("scale", GAMMA))
    if want.dtype.kind == "f":
        np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize("rows", [X, sp.csr_array(np.where(X < 1.0, 0.0, X)), np.ones((5, 3))])
def test_it_is_scikit_learns(rows):
    labels = np.arange(rows.shape[0]) % 2
    peer = SVC(gamma="scale").fit(rows, labels)
    found = KernelParameters(gamma="scale").settled(as_source(rows)).gamma
    assert found == pytest.approx(peer._gamma, rel=1e-10)


def test_standardised_rows_have_variance_1():
    model = gm.KernelRidge(gamma="scale", standardize=True, random_state=0).fit(X, Y)
    assert model.kernel_.lengthscale == pytest.approx((2.0 / 3.0) ** -0.5)
    assert gm.KernelRidgeCV(gamma="scale").fit(X, Y).gamma_ == pytest.approx(GAMMA)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"gamma": "scal"}, r"gamma='scal' is unknown.*'scale' for 1/\(n_features.*Did you mean 'scale'"),
        ({"gamma": "scale", "kernel": gm.Gaussian()}, "a Kernel instance carries its lengthscale"),
        ({"gamma": "scale", "kernel": "auto"}, "kernel='auto' was given with gamma='scale'"),
    ],
)
def test_other_words_and_kernels_without_a_gamma_are_explained(options, text):
    with pytest.raises(gm.InputError, match=text):
        gm.KernelRidge(**options).fit(X, Y)


WEIGHTED = {
    "KernelRidge": gm.KernelRidge(0.1, gamma="scale"),
    "KernelRidge exact": gm.KernelRidge(0.1, gamma="scale", approximation="exact"),
    "KernelRidge alpha": gm.KernelRidge("auto", gamma="scale", random_state=0),
    "KernelRidgeClassifier": gm.KernelRidgeClassifier(0.1, gamma="scale"),
    "KernelSVC": gm.KernelSVC(gamma="scale"),
    "KernelSVR": gm.KernelSVR(gamma="scale"),
    "KernelLogisticRegression": gm.KernelLogisticRegression(gamma="scale"),
    "KernelRidgeCV": gm.KernelRidgeCV((0.01, 0.1, 1.0), gamma="scale"),
    "DCSVC": gm.DCSVC(gamma="scale", tol=1e-8),
}


@pytest.mark.filterwarnings("ignore:.* rows repeat one of")
@pytest.mark.parametrize("name", WEIGHTED)
def test_rows_count_by_their_weight(name):
    model, target = WEIGHTED[name], LABELS if is_classifier(WEIGHTED[name]) else Y
    far, more = np.vstack([X, [[1e4, 0.0, 0.0]]]), np.append(target, target[:1])
    weights = np.append(np.ones(60), 0.0)
    found = clone(model).fit(far, more, sample_weight=weights)
    assert found.kernel_.lengthscale == pytest.approx(clone(model).fit(X, target).kernel_.lengthscale)
    twice, rows = np.where(np.arange(60) < 20, 2.0, 1.0), np.r_[np.arange(60), np.arange(20)]
    found, want = clone(model).fit(X, target, twice), clone(model).fit(X[rows], target[rows])
    assert found.kernel_.lengthscale == pytest.approx(want.kernel_.lengthscale)


def test_a_stream_keeps_that_of_its_first_rows():
    rng = np.random.default_rng(0)
    model = gm.KernelRidge(gamma="scale", random_state=0).partial_fit(rng.random((2100, 2)), rng.random(2100))
    first = model.kernel_
    assert model.partial_fit(9.0 * rng.random((10, 2)), np.ones(10)).kernel_ == first
    with pytest.raises(gm.InputError, match=r"the kernel is now Laplacian.*started with Gaussian"):
        model.set_params(kernel="laplacian").partial_fit(rng.random((10, 2)), np.ones(10))
