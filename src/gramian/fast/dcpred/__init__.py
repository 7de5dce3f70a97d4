"""DC-Pred++: predictors of local models on a few pseudo-landmarks a cluster."""
