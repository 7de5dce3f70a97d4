"""gramian: kernel machines on a memory budget."""

from gramian.estimators.block_basis import BlockBasis
from gramian.estimators.meka import MEKA
from gramian.estimators.multiresolution import MultiResolution
from gramian.estimators.ridge import KernelRidge, KernelRidgeClassifier
from gramian.exceptions import (
    AccuracyWarning,
    BudgetError,
    GramianError,
    InputError,
    MissingPackageError,
    ModelFileError,
    NumericalWarning,
)
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
    Polynomial,
    RationalQuadratic,
)
from gramian.model_file import load, save
from gramian.operators.block import BlockOperator

__version__ = "0.1.0"

__all__ = [
    "MEKA",
    "AccuracyWarning",
    "BlockBasis",
    "BlockOperator",
    "BudgetError",
    "Cauchy",
    "Cosine",
    "Exponential",
    "FunctionKernel",
    "Gaussian",
    "GramianError",
    "InputError",
    "Kernel",
    "KernelRidge",
    "KernelRidgeClassifier",
    "Laplacian",
    "Linear",
    "Matern",
    "MissingPackageError",
    "ModelFileError",
    "MultiResolution",
    "NumericalWarning",
    "Polynomial",
    "RationalQuadratic",
    "load",
    "save",
]
