"""Learning of a fast predictor: metric, copies of rows, units of a leaf, and all leaves together."""
