"""Training of a fast predictor: metric, synthetic rows, units of a leaf, and all leaves together."""
