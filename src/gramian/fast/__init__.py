"""Predictors that cost nanoseconds a row: local models on few kernel units."""
