"""Fits and predictions on a Dask cluster."""

from gramian.engine_dask.cluster import DaskEngine, engine

__all__ = ["DaskEngine", "engine"]
