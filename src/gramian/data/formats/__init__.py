"""File formats as row sources: one file for each, over :class:`gramian.data.storage.Storage`."""
