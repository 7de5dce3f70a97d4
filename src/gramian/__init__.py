"""gramian: kernel machines on a memory budget."""

from gramian.kernels import (
    Gaussian,
    Linear,
    Laplacian,
    Exponential,
    Matern,
    Cauchy,
    Cosine,
    Polynomial,
    RationalQuadratic,
)
