"""The exact kernel matrix: solvers whose preconditioners are the library's own structures."""
