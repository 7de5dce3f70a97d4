"""The adapters of the libraries that the benchmark compares with: right answers, or text with advice."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_friedman1
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import StandardScaler

from gramian.exceptions import MissingPackageError

PATH = Path(__file__).parents[2] / "benchmarks" / "suite" / "peers.py"
NAMES = {"Falkon": "falkon", "EigenPro": "eigenpro2", "xRFM": "xrfm"}
ADAPTERS = [
    (library, prefix + kind)
    for library, prefix in (("Falkon", "Falkon"), ("EigenPro", "EigenPro"), ("xRFM", "XRFM"))
    for kind in ("Regressor", "Classifier")
]


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_peers", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_peers"] = module
    spec.loader.exec_module(module)
    return module


peers = load()


def skip_without(library: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip(NAMES[library], reason=f"{library} is not installed")


def regression(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    X, y = make_friedman1(n, n_features=5, noise=0.1, random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X.setflags(write=False)
    return X, 100.0 + 3.0 * y


def digits(n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:n]  # the digits of a writer follow one another
    return StandardScaler().fit_transform(X[rows]), np.array([f"digit {label}" for label in y[rows]])


@pytest.mark.parametrize(("library", "name"), ADAPTERS)
def test_constructor_only_stores(library: str, name: str) -> None:
    model = getattr(peers, name)(random_state=7)
    assert clone(model).get_params() == model.get_params()
    assert model.get_params()["random_state"] == 7
    assert library in peers.PEERS


def test_installed_names_every_library_and_imports_none() -> None:
    before = set(sys.modules)
    versions = peers.installed()
    assert list(versions) == ["Falkon", "EigenPro", "xRFM"]
    assert not {"torch", *NAMES.values()} & (set(sys.modules) - before)


def test_absent_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setitem(peers.PEERS, "Falkon", peers.Peer("no_such_module", "no-such", "from its repository"))
    assert peers.installed()["Falkon"] is None
    with pytest.raises(MissingPackageError, match=r"No module named 'no_such_module'.*from its repository"):
        peers.FalkonRegressor().fit(*regression(30))


def test_torch_session_puts_threads_and_random_state_back(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    state, count = torch.get_rng_state(), torch.get_num_threads()
    with peers.torch_session(3) as lent:
        assert lent.get_num_threads() == 1
        lent.rand(5)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.get_num_threads() == count


def test_falkon_with_all_rows_as_centers_is_kernel_ridge() -> None:
    skip_without("Falkon")
    X, y = regression()
    train, test = slice(0, 200), slice(200, 300)
    model = peers.FalkonRegressor(gamma=0.2, alpha=0.5, n_centers=200, maxiter=100, dtype="float64")
    got = model.fit(X[train], y[train]).predict(X[test])
    ridge = KernelRidge(kernel="rbf", gamma=0.2, alpha=0.5).fit(X[train], y[train] - y[train].mean())
    np.testing.assert_allclose(got, ridge.predict(X[test]) + y[train].mean(), atol=1e-4 * y.std())


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_eigenpro_converges_to_the_interpolant(kernel: str) -> None:
    skip_without("EigenPro")
    X, y = regression()
    train, test = slice(0, 200), slice(200, 300)
    gamma = {"gaussian": 1.0, "laplacian": 0.5}[kernel]

    def gram(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        squared = ((A[:, None] - B[None]) ** 2).sum(axis=2)
        return np.exp(-gamma * (squared if kernel == "gaussian" else np.sqrt(squared)))

    model = peers.EigenProRegressor(kernel=kernel, gamma=gamma, epochs=100)
    got = model.fit(X[train], y[train]).predict(X[test])
    weights = np.linalg.solve(gram(X[train], X[train]), y[train] - y[train].mean())
    expected = gram(X[test], X[train]) @ weights + y[train].mean()
    assert np.sqrt(np.mean((got - expected) ** 2)) < 0.02 * y.std()


@pytest.mark.parametrize(("library", "name"), [pair for pair in ADAPTERS if pair[1].endswith("Regressor")])
def test_regressors_learn_repeat_and_leave_their_input(library: str, name: str) -> None:
    skip_without(library)
    X, y = regression(600)
    model = getattr(peers, name)()
    params = model.get_params()
    model.fit(X[:450], y[:450])
    assert model.score(X[450:], y[450:]) > 0.9
    assert model.get_params() == params
    again = clone(model).fit(X[:450], y[:450])
    np.testing.assert_array_equal(model.predict(X[450:]), again.predict(X[450:]))


@pytest.mark.parametrize(("library", "name"), [pair for pair in ADAPTERS if pair[1].endswith("Classifier")])
@pytest.mark.parametrize("n_classes", [2, 10])
def test_classifiers_answer_with_the_labels_given(library: str, name: str, n_classes: int) -> None:
    skip_without(library)
    X, y = digits()
    keep = np.isin(y, [f"digit {label}" for label in range(n_classes)])
    X, y = X[keep], y[keep]
    cut = 3 * len(X) // 4
    model = getattr(peers, name)().fit(X[:cut], y[:cut])
    assert set(model.predict(X[cut:])) <= set(y)
    assert model.score(X[cut:], y[cut:]) > 0.9
