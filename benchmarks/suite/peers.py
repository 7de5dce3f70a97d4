"""The libraries that gramian is measured against, each behind ``fit`` and ``predict``.

| adapter | library | model |
|---|---|---|
| ``FalkonRegressor``, ``FalkonClassifier`` | Falkon | Nyström kernel ridge, conjugate gradients |
| ``EigenProRegressor``, ``EigenProClassifier`` | EigenPro | kernel interpolation, gradient descent |
| ``XRFMRegressor``, ``XRFMClassifier`` | xRFM | Laplace kernels that learn their metric, in a tree |

All run on the processor, with the threads that ``OMP_NUM_THREADS`` names, and leave torch's random state and
number of threads as they found them. Nothing is imported before ``fit``; ``installed()`` says what is there.
The columns of ``X`` are taken as they come: put a ``StandardScaler`` before.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import importlib.util
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.exceptions import InputError, MissingPackageError

BLOCK_BYTES = 64 * 2**20
SMALLEST_EIGENVALUE = 1e-3
EIGENVALUE_ROWS = 500
LEAST_ROWS = 12


@dataclass(frozen=True)
class Peer:
    """Where a library is found and how it is installed."""

    module: str
    distribution: str
    install: str


PEERS = {
    "Falkon": Peer(
        "falkon",
        "falkon",
        "from its repository (FalkonML/falkon), with torch, setuptools, ninja and a C++ compiler present: "
        "FORCE_ONLY_CPU=1 pip install --no-build-isolation --no-deps <path of the clone>",
    ),
    "EigenPro": Peer(
        "eigenpro2",
        "eigenpro2",
        "from its repository (EigenPro/EigenPro-pytorch): "
        "pip install --no-build-isolation --no-deps <path of the clone>",
    ),
    "xRFM": Peer("xrfm", "xrfm", "with: pip install 'gramian[peers]'"),
}


def installed() -> dict[str, str | None]:
    """Return the version of each library, ``None`` where it (or torch) is absent; imports nothing."""
    return {name: _version(peer) for name, peer in PEERS.items()}


def require(name: str) -> ModuleType:
    """Import the library called ``name``, or raise ``MissingPackageError`` that says how to install it."""
    peer = PEERS[name]
    try:
        importlib.import_module("torch")
        return importlib.import_module(peer.module)
    except ModuleNotFoundError as missing:
        raise MissingPackageError(
            f"{name} cannot be imported ({missing}). Install torch with: pip install torch. "
            f"Install {name} {peer.install}"
        ) from missing


def _version(peer: Peer) -> str | None:
    # A folder of that name on the path is found too; only an installed package has an origin.
    for spec in map(importlib.util.find_spec, ("torch", peer.module)):
        if spec is None or spec.origin is None:
            return None
    try:
        return importlib.metadata.version(peer.distribution)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def threads() -> int:
    """Return the first number of ``OMP_NUM_THREADS``, or else the cores that this process may use."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(first) if first.isdecimal() and int(first) else cores


@contextlib.contextmanager
def torch_session(seed: int | None) -> Iterator[Any]:
    """Lend torch with the process's threads and a seed, then put its own back."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads())
    try:
        # EigenPro and xRFM print their progress; a benchmark's output is a table.
        with torch.random.fork_rng(devices=[]), contextlib.redirect_stdout(io.StringIO()):
            if seed is not None:
                torch.manual_seed(seed)
            yield torch
    finally:
        torch.set_num_threads(before)


def _finite(array: np.ndarray, name: str, cure: str) -> None:
    if not np.isfinite(array).all():
        raise InputError(f"The coefficients of {name} are not finite, so it did not converge. {cure}")


class _Targets(BaseEstimator):
    """A model that is fitted to the columns of a matrix of targets: ``_fit_targets`` and ``_outputs``."""

    _dtype = np.float32

    def _checked(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return validate_data(self, X, dtype=self._dtype, reset=False)


class _Regressor(RegressorMixin):
    """Targets centred and scaled to unit variance, since none of these models has an intercept."""

    def fit(self, X: Any, y: Any) -> Any:
        X, y = validate_data(self, X, y, dtype=self._dtype, y_numeric=True)
        self.y_mean_, self.y_scale_ = float(y.mean()), float(y.std()) or 1.0
        self._fit_targets(X, ((y - self.y_mean_) / self.y_scale_)[:, None])
        return self

    def predict(self, X: Any) -> np.ndarray:
        return self._outputs(self._checked(X))[:, 0].astype(np.float64) * self.y_scale_ + self.y_mean_


class _Classifier(ClassifierMixin):
    """Targets +1 for the class and -1 for the others; two classes share one column, which loses nothing."""

    def fit(self, X: Any, y: Any) -> Any:
        X, y = validate_data(self, X, y, dtype=self._dtype)
        self.classes_, code = _codes(y)
        targets = np.where(code[:, None] == np.arange(len(self.classes_)), 1.0, -1.0)
        self._fit_targets(X, targets[:, 1:] if targets.shape[1] == 2 else targets)
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        outputs = self._outputs(self._checked(X))
        return outputs[:, 0] if len(self.classes_) == 2 else outputs

    def predict(self, X: Any) -> np.ndarray:
        values = self.decision_function(X)
        return self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]


def _codes(y: Any) -> tuple[np.ndarray, np.ndarray]:
    classes, code = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) < 2:
        raise InputError(
            f"y holds only the class {str(classes[0])!r}; a classifier needs rows of two classes."
        )
    return classes, code


def _lengthscale(kernel: str, gamma: float | None, d: int) -> float:
    """Return what Falkon and EigenPro call sigma and bandwidth."""
    if kernel == "gaussian":
        return (2.0 * (1.0 / d if gamma is None else gamma)) ** -0.5
    if kernel == "laplacian":
        return 1.0 / (d**-0.5 if gamma is None else gamma)
    raise InputError(f"kernel is {kernel!r}; choose 'gaussian' or 'laplacian'.")


class _Falkon(_Targets):
    """Kernel ridge on ``n_centers`` random rows, kernel ``exp(-gamma |x - z|^2)``, or ``laplacian``.

    Falkon minimises the mean squared error plus ``penalty |f|^2``: ``penalty = alpha / n`` makes ``alpha``
    that of kernel ridge (``K + alpha I``), and ``sigma = (2 gamma)^-1/2``. ``gamma=None`` means ``1 / d``.
    The kernel block (n, n_centers) is kept where it fits into memory; Falkon alone would compute it anew in
    each iteration below 1,200 columns. In float32 its iterations can diverge where ``alpha`` is small.
    """

    def __init__(
        self,
        kernel: str = "gaussian",
        gamma: float | None = None,
        alpha: float = 1e-2,
        n_centers: int = 1000,
        maxiter: int = 20,
        dtype: str = "float64",
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.alpha = alpha
        self.n_centers = n_centers
        self.maxiter = maxiter
        self.dtype = dtype
        self.random_state = random_state

    @property
    def _dtype(self) -> Any:
        return np.dtype(self.dtype)

    def _fit_targets(self, X: np.ndarray, targets: np.ndarray) -> None:
        falkon = require("Falkon")
        n, d = X.shape
        M, width = min(self.n_centers, n), _lengthscale(self.kernel, self.gamma, d)
        with torch_session(self.random_state) as torch:
            # Falkon 0.9.0 multiplies by a kept block that is square where its transpose is due.
            keep = {"store_kernel_d_threshold": 0, "never_store_kernel": n == M}
            options = falkon.FalkonOptions(use_cpu=True, keops_active="no", **keep)
            kernel = getattr(falkon.kernels, f"{self.kernel.title()}Kernel")(width, opt=options)
            model = falkon.Falkon(
                kernel, self.alpha / n, M, maxiter=self.maxiter, seed=self.random_state, options=options
            )
            try:
                model.fit(torch.tensor(X), torch.tensor(targets.astype(X.dtype)))
            # Centres that coincide: its factor has no jitter beyond rounding.
            except RuntimeError as failed:
                if "potrf" not in str(failed):
                    raise
                raise np.linalg.LinAlgError(f"Falkon: {failed}") from failed
        _finite(model.alpha_.numpy(), "Falkon", "Raise alpha, or use dtype='float64'.")
        self.model_ = model

    def _outputs(self, X: np.ndarray) -> np.ndarray:
        with torch_session(None) as torch:
            return self.model_.predict(torch.tensor(X)).numpy()


class FalkonRegressor(_Regressor, _Falkon):
    """Falkon on centred and scaled targets."""


class FalkonClassifier(_Classifier, _Falkon):
    """Falkon on targets of +1 and -1."""


class _EigenPro(_Targets):
    """Kernel regression without a penalty, on all rows; the number of epochs regularises.

    Kernels: ``gaussian`` ``exp(-gamma |x - z|^2)`` (``gamma=None``: ``1 / d``) and ``laplacian``
    ``exp(-gamma |x - z|)`` (``gamma=None``: ``d^-1/2``). Batch and step are EigenPro's own choice, from the
    ``memory_gb`` that it may use (of which it leaves one) and the first eigenvectors of ``n_subsamples``
    rows, at most ``top_q``: those above ``SMALLEST_EIGENVALUE`` of the largest, because its eigensolver in
    float32 does not end beyond. Time O(n^2 (d + q)) an epoch for q targets.
    """

    def __init__(
        self,
        kernel: str = "laplacian",
        gamma: float | None = None,
        epochs: int = 10,
        n_subsamples: int = 2000,
        top_q: int = 160,
        memory_gb: float = 3.0,
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.epochs = epochs
        self.n_subsamples = n_subsamples
        self.top_q = top_q
        self.memory_gb = memory_gb
        self.random_state = random_state

    def _top_q(self, kernel: Any, rows: Any) -> int:
        """Count the usable eigenvalues on a few rows; EigenPro needs two, and three rows for each."""
        import torch

        few = rows[torch.randperm(len(rows))[:EIGENVALUE_ROWS]]
        values = torch.linalg.eigvalsh(kernel(few, few).double())
        usable = int((values > SMALLEST_EIGENVALUE * values[-1]).sum())
        return max(2, min(self.top_q, usable, min(self.n_subsamples, len(rows)) // 3 - 1))

    def _fit_targets(self, X: np.ndarray, targets: np.ndarray) -> None:
        require("EigenPro")
        if len(X) < LEAST_ROWS:
            raise InputError(f"X has {len(X)} rows; EigenPro needs {LEAST_ROWS} to take eigenvectors of.")
        kernels, models = map(importlib.import_module, ("eigenpro2.kernels", "eigenpro2.models"))
        width = _lengthscale(self.kernel, self.gamma, X.shape[1])  # refuses an unknown kernel
        kernel = functools.partial(getattr(kernels, self.kernel), bandwidth=width)
        with torch_session(self.random_state) as torch:
            rows, labels = torch.tensor(X), torch.tensor(targets.astype(np.float32))
            model = models.KernelModel(kernel, rows, labels.shape[1], device="cpu")
            settings = {"n_subsamples": min(self.n_subsamples, len(X)), "top_q": self._top_q(kernel, rows)}
            model.fit(
                rows, labels, epochs=self.epochs, mem_gb=self.memory_gb, run_epoch_eval=False, **settings
            )
        _finite(model.weight.numpy(), "EigenPro", "Take another bandwidth, or fewer epochs.")
        self.model_ = model

    def _outputs(self, X: np.ndarray) -> np.ndarray:
        step = max(1, BLOCK_BYTES // (4 * self.model_.n_centers))
        with torch_session(None) as torch, torch.no_grad():
            blocks = [self.model_.forward(torch.tensor(X[i : i + step])) for i in range(0, len(X), step)]
            return torch.cat(blocks).numpy()


class EigenProRegressor(_Regressor, _EigenPro):
    """EigenPro on centred and scaled targets."""


class EigenProClassifier(_Classifier, _EigenPro):
    """EigenPro on targets of +1 and -1."""


class _XRFM(_Targets):
    """A tree of recursive feature machines; ``validation`` of the rows choose the iteration that is kept.

    ``kernel``, ``bandwidth``, ``exponent``, ``reg`` and ``iters`` are those of a leaf, with the library's
    defaults; ``max_leaf_size`` is its most rows, which cost O(size^3) an iteration (the library's 60,000 are
    meant for a graphics card). More rows are split: the library's way fits up to 47,500 of them to choose a
    direction; ``split_method="random_pca"`` takes one without a fit.
    """

    def __init__(
        self,
        kernel: str = "l2_high_dim",
        bandwidth: float = 10.0,
        exponent: float = 1.0,
        reg: float = 1e-3,
        iters: int = 5,
        diag: bool = False,
        bandwidth_mode: str = "constant",
        max_leaf_size: int = 10_000,
        split_method: str = "top_vector_agop_on_subset",
        n_trees: int = 1,
        tuning_metric: str | None = None,
        validation: float = 0.2,
        random_state: int = 0,
    ) -> None:
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.exponent = exponent
        self.reg = reg
        self.iters = iters
        self.diag = diag
        self.bandwidth_mode = bandwidth_mode
        self.max_leaf_size = max_leaf_size
        self.split_method = split_method
        self.n_trees = n_trees
        self.tuning_metric = tuning_metric
        self.validation = validation
        self.random_state = random_state

    def _fit_split(self, X: np.ndarray, y: np.ndarray, stratify: np.ndarray | None) -> None:
        """Fit on a part of the rows; ``y`` is (n, q) in float32, or (n,) in int64 for class codes."""
        xrfm = require("xRFM")
        rows, held, targets, held_targets = train_test_split(
            X, y, test_size=self.validation, random_state=self.random_state, stratify=stratify
        )
        names = ("kernel", "bandwidth", "exponent", "diag", "bandwidth_mode")
        fit = {"reg": self.reg, "iters": self.iters, "verbose": False}
        leaf = {"model": {name: getattr(self, name) for name in names}, "fit": fit}
        with torch_session(self.random_state) as torch:
            model = xrfm.xRFM(
                rfm_params=leaf,
                max_leaf_size=self.max_leaf_size,
                split_method=self.split_method,
                device="cpu",
                n_trees=self.n_trees,
                tuning_metric=self.tuning_metric,
                verbose=False,
            )
            model.fit(*map(torch.tensor, (rows, targets, held, held_targets)))
        self.model_ = model


class XRFMRegressor(_Regressor, _XRFM):
    """xRFM on centred and scaled targets."""

    def _fit_targets(self, X: np.ndarray, targets: np.ndarray) -> None:
        self._fit_split(X, targets.astype(np.float32), None)

    def _outputs(self, X: np.ndarray) -> np.ndarray:
        with torch_session(self.random_state) as torch, torch.no_grad():
            return self.model_.predict(torch.tensor(X))


class XRFMClassifier(ClassifierMixin, _XRFM):
    """xRFM on class codes, which it encodes itself; the split is stratified where it can be."""

    def fit(self, X: Any, y: Any) -> XRFMClassifier:
        X, y = validate_data(self, X, y, dtype=self._dtype)
        self.classes_, code = _codes(y)
        # A stratified split needs two rows of each class, and a held row for each.
        enough = np.bincount(code).min() > 1 and int(self.validation * len(X)) >= len(self.classes_)
        self._fit_split(X, code.astype(np.int64), code if enough else None)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        with torch_session(self.random_state) as torch, torch.no_grad():
            return self.model_.predict_proba(torch.tensor(self._checked(X)))

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
