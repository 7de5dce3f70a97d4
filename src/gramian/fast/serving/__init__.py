"""Prediction with a fast model: routing, tiles, batches, compiled single rows and flat arrays."""
