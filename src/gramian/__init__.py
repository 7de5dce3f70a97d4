"""gramian: kernel machines on a memory budget."""

from gramian.approximations.block_basis import BlockBasis
from gramian.approximations.block_diagonal import BlockDiagonal
from gramian.approximations.clustered_low_rank import ClusteredLowRank
from gramian.approximations.ensemble_nystrom import EnsembleNystrom
from gramian.approximations.fastfood import Fastfood
from gramian.approximations.kals import KALS
from gramian.approximations.low_rank_plus_blocks import LowRankPlusBlocks
from gramian.approximations.meka import MEKA
from gramian.approximations.multiresolution import MultiResolution
from gramian.approximations.nystrom import Nystrom
from gramian.approximations.random_fourier import RandomFourier
from gramian.approximations.random_maclaurin import RandomMaclaurin
from gramian.approximations.tensor_sketch import TensorSketch
from gramian.approximations.truncated_eigen import TruncatedEigen
from gramian.data.opening import open_data
from gramian.exact.exact import Exact
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
from gramian.fast.compress import compress
from gramian.fast.dcpred.estimators import DCPredClassifier, DCPredRegressor
from gramian.fast.estimators import FastKernelClassifier, FastKernelRegressor
from gramian.gp.regressor import GaussianProcessRegressor
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
from gramian.metric.learned_metric import LearnedMetric
from gramian.metric.metric import Metric
from gramian.model_file import load, save
from gramian.operators.block import BlockOperator
from gramian.operators.kernel import KernelOperator
from gramian.outer_product import average_gradient_outer_product
from gramian.ridge.cross_validation import KernelRidgeCV
from gramian.ridge.ridge import KernelRidge, KernelRidgeClassifier
from gramian.spectra.functions import (
    effective_dimension,
    leverage_scores,
    log_determinant,
    top_eigenpairs,
)
from gramian.spectra.kernel_pca import KernelPCA
from gramian.svm.classifier import KernelSVC
from gramian.svm.dcsvc import DCSVC
from gramian.svm.logistic import KernelLogisticRegression
from gramian.svm.regressor import KernelSVR
from gramian.tables.estimators import TabularClassifier, TabularRegressor

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
