"""Builders of approximations: one file a method, all giving the same :class:`FeatureMap`."""
