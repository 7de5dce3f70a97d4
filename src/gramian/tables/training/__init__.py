"""Last fit of a table model: metric rounds, penalties, exact or streamed models, logistic models."""
