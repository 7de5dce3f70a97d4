"""Serving of a fast predictor: routing, tiles, batches, compiled single rows and flat arrays."""
