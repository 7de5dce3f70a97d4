"""The metric that a model implies: how much its values change along each direction of the features."""
