"""Formats as row sources: a file each, over :class:`gramian.data.pieces.Storage`."""
