"""Divide and conquer for the exact kernel SVM."""
