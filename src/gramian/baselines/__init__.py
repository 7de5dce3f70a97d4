"""Other fast kernel predictors of the field, to compare with."""
