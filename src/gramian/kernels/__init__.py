"""Kernels k(x, z) as frozen values, evaluated by tiles."""

from gramian.kernels.base import Constant, FunctionKernel, Kernel, Product, Scaled, Sum
from gramian.kernels.dot_products import Cosine, Linear, Polynomial
from gramian.kernels.families import Cauchy, Exponential, Gaussian, Laplacian, Matern, RationalQuadratic
from gramian.kernels.mapped import OnFeatures, Periodic
from gramian.kernels.powered import PoweredExponential
from gramian.kernels.resolve import KERNEL_NAMES, kernel_from_spec, kernel_to_spec, resolve_kernel

__all__ = [
    "KERNEL_NAMES",
    "Cauchy",
    "Constant",
    "Cosine",
    "Exponential",
    "FunctionKernel",
    "Gaussian",
    "Kernel",
    "Laplacian",
    "Linear",
    "Matern",
    "OnFeatures",
    "Periodic",
    "Polynomial",
    "PoweredExponential",
    "Product",
    "RationalQuadratic",
    "Scaled",
    "Sum",
    "kernel_from_spec",
    "kernel_to_spec",
    "resolve_kernel",
]
