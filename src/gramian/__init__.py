"""gramian: kernel machines on a memory budget."""

from gramian import kernels
from gramian.approximations import (
    KALS,
    MEKA,
    BlockBasis,
    BlockDiagonal,
    EnsembleNystrom,
    Fastfood,
    MultiResolution,
    Nystrom,
    RandomFourier,
    RandomMaclaurin,
    TensorSketch,
    TruncatedEigen,
)
from gramian.data.opening import open_data
from gramian.estimator import mixins as _mixins
from gramian.exact.exact import Exact
from gramian.exceptions import (
    AccuracyWarning,
    BudgetError,
    GramianError,
    InputError,
    NumericalError,
    NumericalWarning,
    did_you_mean,
)
from gramian.explanation import explain, suspects
from gramian.export import export
from gramian.fast.dcpred.estimators import DCPredClassifier, DCPredRegressor
from gramian.fast.estimators import FastKernelClassifier, FastKernelRegressor
from gramian.gp.regressor import GaussianProcessRegressor
from gramian.kernels import (
    Exponential,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
)
from gramian.metric.learning import LearnedMetric
from gramian.metric.metric import Metric
from gramian.model_file import load, save
from gramian.reporting import report as _report
from gramian.ridge.cross_validation import KernelRidgeCV
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.spectra import KernelPCA
from gramian.svm.classifier import KernelSVC
from gramian.svm.dcsvc import DCSVC
from gramian.svm.logistic import KernelLogisticRegression
from gramian.svm.regressor import KernelSVR
from gramian.tables.classifier import TabularClassifier
from gramian.tables.compression import compress
from gramian.tables.regressor import TabularRegressor

__version__ = "0.2.0"

# Methods of every model that know all kinds of models: written above them, and handed down here.
for _base in (_mixins.Classifier, _mixins.Regressor):
    _base.explain, _base.report = explain, _report

__all__ = [
    "DCSVC",
    "KALS",
    "MEKA",
    "AccuracyWarning",
    "BlockBasis",
    "BlockDiagonal",
    "BudgetError",
    "DCPredClassifier",
    "DCPredRegressor",
    "EnsembleNystrom",
    "Exact",
    "Exponential",
    "FastKernelClassifier",
    "FastKernelRegressor",
    "Fastfood",
    "Gaussian",
    "GaussianProcessRegressor",
    "GramianError",
    "InputError",
    "Kernel",
    "KernelLogisticRegression",
    "KernelPCA",
    "KernelRidge",
    "KernelRidgeCV",
    "KernelRidgeClassifier",
    "KernelSVC",
    "KernelSVR",
    "Laplacian",
    "LearnedMetric",
    "Linear",
    "Matern",
    "Metric",
    "MultiResolution",
    "NumericalError",
    "NumericalWarning",
    "Nystrom",
    "Polynomial",
    "RandomFourier",
    "RandomMaclaurin",
    "RationalQuadratic",
    "TabularClassifier",
    "TabularRegressor",
    "TensorSketch",
    "TruncatedEigen",
    "compress",
    "explain",
    "export",
    "load",
    "open_data",
    "save",
    "suspects",
]

#: Names that live in a subpackage, for those who look for them here.
_ELSEWHERE = {
    **dict.fromkeys(sorted(set(kernels.__all__) - set(__all__)), "kernels"),
    "BlockOperator": "operators",
    "ClusterError": "exceptions",
    "ClusteredLowRank": "approximations",
    "KernelOperator": "operators",
    "LowRankPlusBlocks": "approximations",
    "MissingPackageError": "exceptions",
    "ModelFileError": "exceptions",
    "average_gradient_outer_product": "outer_product",
    "effective_dimension": "spectra",
    "leverage_scores": "spectra",
    "log_determinant": "spectra",
    "top_eigenpairs": "spectra",
}
#: Names that have left the package, and their place in the source repository.
_MOVED = {
    "bandwidth_report": "benchmarks/papers/bandwidth_report.py",
    "baselines": "benchmarks/baselines",
    "comparison": "benchmarks/comparison",
    "datasets": "benchmarks/suite/datasets.py",
}


def __dir__() -> list[str]:
    """Return the names for users: the public ones, and imported subpackages that have an ``__all__``."""
    further = {name for name, value in globals().items() if hasattr(value, "__all__")}
    return sorted({*__all__, *further, "__version__"})


def __getattr__(name: str) -> object:
    """Raise for a name that is not here; say where it is or went, or which name is near."""
    where = _ELSEWHERE.get(name)
    if where:
        hint = f" It is in a subpackage: from gramian.{where} import {name}"
    elif name in _MOVED:
        hint = f" It moved out of the package, to {_MOVED[name]} in the source repository."
    elif name.startswith("_"):
        hint = ""
    else:
        base = name.removesuffix("Regressor")
        near = did_you_mean(name, (*__all__, *_ELSEWHERE), cutoff=0.7)
        hint = f" Did you mean {base!r}?" if base in __all__ else near
    raise AttributeError(f"module 'gramian' has no attribute {name!r}.{hint}", name=name)
