"""Models as a server has them: fitted, timed for batches and for single rows, and drawn."""
