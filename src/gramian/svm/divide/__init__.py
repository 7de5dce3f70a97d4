"""Exact kernel SVM by divide and conquer: clusters are solved first and start the larger problems."""
