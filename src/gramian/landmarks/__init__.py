"""Partition of the rows into blocks, routing of new rows, and the choice of landmarks."""
