"""Kernel ridge regression and classification: estimators, streams, and the choice of hyperparameters."""
