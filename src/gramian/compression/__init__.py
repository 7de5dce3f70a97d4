"""Shared parts of all approximations: plan, basis, feature map, sums over rows, training, error estimates."""
