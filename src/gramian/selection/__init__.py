"""Kernel, lengthscales and penalty chosen from the rows, for parameters that say "auto"."""
