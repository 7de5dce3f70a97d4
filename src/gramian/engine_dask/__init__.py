"""Fits and predictions on a Dask cluster: the only folder that imports dask and distributed."""

from gramian.exceptions import MissingPackageError

try:
    from gramian.engine_dask.cluster import DaskEngine, engine
except ImportError as error:
    raise MissingPackageError(
        f"Dask is needed for clusters ({error}). Install it with: pip install 'gramian[dask]'"
    ) from None

__all__ = ["DaskEngine", "engine"]
