"""Support vector machines and kernel logistic regression, and the Newton training below them."""
