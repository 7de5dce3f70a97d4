"""gramian: kernel machines on a memory budget."""

from gramian.data.opening import open_data
from gramian.estimators.block_basis import BlockBasis
from gramian.estimators.block_diagonal import BlockDiagonal
from gramian.estimators.clustered_low_rank import ClusteredLowRank
from gramian.estimators.compress import compress
from gramian.estimators.dcpred import DCPredClassifier, DCPredRegressor
from gramian.estimators.dcsvm import DCSVC
from gramian.estimators.ensemble_nystrom import EnsembleNystrom
from gramian.estimators.exact import Exact
from gramian.estimators.fast import FastKernelClassifier, FastKernelRegressor
from gramian.estimators.fastfood import Fastfood
from gramian.estimators.gp import GaussianProcessRegressor
from gramian.estimators.kals import KALS
from gramian.estimators.kernel_pca import KernelPCA
from gramian.estimators.learned_metric import LearnedMetric
from gramian.estimators.logistic import KernelLogisticRegression
from gramian.estimators.low_rank_plus_blocks import LowRankPlusBlocks
from gramian.estimators.meka import MEKA
from gramian.estimators.multiresolution import MultiResolution
from gramian.estimators.nystrom import Nystrom
from gramian.estimators.outer_product import average_gradient_outer_product
from gramian.estimators.random_fourier import RandomFourier
from gramian.estimators.random_maclaurin import RandomMaclaurin
from gramian.estimators.ridge import KernelRidge, KernelRidgeClassifier
from gramian.estimators.ridge_cv import KernelRidgeCV
from gramian.estimators.svm import KernelSVC
from gramian.estimators.svr import KernelSVR
from gramian.estimators.tabular import TabularClassifier, TabularRegressor
from gramian.estimators.tensor_sketch import TensorSketch
from gramian.estimators.truncated_eigen import TruncatedEigen
from gramian.exact.spectral import (
    effective_dimension,
    leverage_scores,
    log_determinant,
    top_eigenpairs,
)
from gramian.exceptions import (
    AccuracyWarning,
    BudgetError,
    ClusterError,
    GramianError,
    InputError,
    MissingPackageError,
    ModelFileError,
    NumericalError,
    NumericalWarning,
)
from gramian.export import export
from gramian.kernels import (
    Cauchy,
    Cosine,
    Exponential,
    FunctionKernel,
    Gaussian,
    Kernel,
    Laplacian,
    Linear,
    Matern,
    OnFeatures,
    Polynomial,
    PoweredExponential,
    RationalQuadratic,
)
from gramian.metric.metric import Metric
from gramian.model_file import load, save
from gramian.operators.block import BlockOperator
from gramian.operators.kernel import KernelOperator

__version__ = "0.1.0"

__all__ = [
    "DCSVC",
    "KALS",
    "MEKA",
    "AccuracyWarning",
    "BlockBasis",
    "BlockDiagonal",
    "BlockOperator",
    "BudgetError",
    "Cauchy",
    "ClusterError",
    "ClusteredLowRank",
    "Cosine",
    "DCPredClassifier",
    "DCPredRegressor",
    "EnsembleNystrom",
    "Exact",
    "Exponential",
    "FastKernelClassifier",
    "FastKernelRegressor",
    "Fastfood",
    "FunctionKernel",
    "Gaussian",
    "GaussianProcessRegressor",
    "GramianError",
    "InputError",
    "Kernel",
    "KernelLogisticRegression",
    "KernelOperator",
    "KernelPCA",
    "KernelRidge",
    "KernelRidgeCV",
    "KernelRidgeClassifier",
    "KernelSVC",
    "KernelSVR",
    "Laplacian",
    "LearnedMetric",
    "Linear",
    "LowRankPlusBlocks",
    "Matern",
    "Metric",
    "MissingPackageError",
    "ModelFileError",
    "MultiResolution",
    "NumericalError",
    "NumericalWarning",
    "Nystrom",
    "OnFeatures",
    "Polynomial",
    "PoweredExponential",
    "RandomFourier",
    "RandomMaclaurin",
    "RationalQuadratic",
    "TabularClassifier",
    "TabularRegressor",
    "TensorSketch",
    "TruncatedEigen",
    "average_gradient_outer_product",
    "compress",
    "effective_dimension",
    "export",
    "leverage_scores",
    "load",
    "log_determinant",
    "open_data",
    "save",
    "top_eigenpairs",
]
