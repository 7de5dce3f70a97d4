"""Predictors that take nanoseconds a row: local models on a few kernel units."""
