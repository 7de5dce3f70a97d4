"""Spectral quantities of kernel matrices: principal components, eigenpairs, log-determinants, leverage."""
