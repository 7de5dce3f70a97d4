"""Gradient boosting beside kernel models: trees as arrays, and their values for rows."""
