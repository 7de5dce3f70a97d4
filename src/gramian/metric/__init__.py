"""Learned metrics: how much a model's values change along each direction of the features."""
