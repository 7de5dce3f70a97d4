"""gramian: kernel machines on a memory budget."""

from gramian.kernels import (
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
