"""Approximations of kernel matrices: one method a file, its transformer first and its builder below it."""
