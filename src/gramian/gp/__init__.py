"""Gaussian processes on nested bases: likelihood, its gradient, posterior, learning."""
