"""Solvers for the exact kernel matrix, preconditioned by the library's own approximations."""
