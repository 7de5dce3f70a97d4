"""DC-Pred++: fast predictors with a local model on few landmarks and pseudo-landmarks in each cluster."""
