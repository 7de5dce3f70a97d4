"""Kernels k(x, z) as frozen values, evaluated by tiles."""

from gramian.kernels.base import FunctionKernel, Kernel, Product, Scaled, Sum
from gramian.kernels.families import (
    Cauchy,
    Cosine,
    Exponential,
    Gaussian,
    Laplacian,
    Linear,
    Matern,
    Polynomial,
    RationalQuadratic,
)

__all__ = [
    "Cauchy",
    "Cosine",
    "Exponential",
    "FunctionKernel",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
]
