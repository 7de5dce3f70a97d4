"""Exact and iterative solvers on arrays: they know neither kernels nor data."""
