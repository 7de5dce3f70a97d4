"""Spectral quantities of kernel matrices: principal components, eigenpairs, log-determinants, leverage."""

from gramian.spectra.functions import effective_dimension, leverage_scores, log_determinant, top_eigenpairs
from gramian.spectra.kernel_pca import KernelPCA

__all__ = ["KernelPCA", "effective_dimension", "leverage_scores", "log_determinant", "top_eigenpairs"]
