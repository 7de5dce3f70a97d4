"""svmlight files as sparse rows: blocks of whole lines, found by one scan at opening."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from gramian._typing import Array, Rows
from gramian.data.file_options import FileOptions
from gramian.data.formats.text import TEXT_BYTES, TextReader, text_blocks
from gramian.data.storage import Piece, Storage, Target, UnreadableRow, explain_errors, refuse_columns
from gramian.exceptions import InputError, shortened


class SvmlightStorage(Storage):
    """Lines ``target index:value …`` as float64 CSR rows; the target is the first number.

    Opening parses each file once to find its rows, the largest feature, and whether features count from 0 or
    1 (from 1 if no file has a feature 0). A later file takes both from the source that the model was trained
    on (``like``).
    """

    together = True
    sparse = True
    dtype = np.dtype(np.float64)

    def __init__(self, paths: Sequence[Path], choice: FileOptions) -> None:
        super().__init__(paths)
        refuse_columns(self.names[0], choice.columns, choice.categorical)
        if choice.target is not None:
            raise InputError(
                f"{self.names[0]}: svmlight files name no columns; the target is the first number of each "
                "line. Leave target out."
            )
        self.target = Target("y", np.dtype(np.float64))
        self.pieces: list[Piece] = []
        self._reader = TextReader()
        least, most = 1, 0
        for number, name in enumerate(self.names):
            first = 0
            with explain_errors(name, 0):
                for start, text in text_blocks(name):
                    with explain_errors(name, first):
                        X, y = _parse(text, None)
                    if len(y):
                        self.pieces.append(Piece(number, first, len(y), (start, start + len(text))))
                    if X.nnz:
                        least, most = min(least, int(X.indices.min())), max(most, int(X.indices.max()))
                    first += len(y)
        self.zero_based = choice.zero_based if choice.zero_based is not None else least == 0
        width = most + 1 if self.zero_based else most
        self.n_features = choice.n_features if choice.n_features is not None else width
        if width > self.n_features:
            raise InputError(
                f"{self.names[0]} has {width} features, but {self.n_features} were expected. Pass rows of "
                "that width."
            )
        if not width:
            raise InputError(f"{self.names[0]} has no features. Pass at least one feature.")
        if not self.zero_based and not least:
            raise InputError(f"{self.names[0]} has a feature 0, but features were expected to count from 1.")

    def read(self, piece: Piece, *, rows: bool, target: bool) -> tuple[Rows | None, Array | None]:
        """Parse a block of lines."""
        text = self._reader.read(self.names[piece.file], *piece.where)
        X, y = _parse(text, self.n_features + (not self.zero_based))
        if len(y) != piece.n_rows:
            raise ValueError(f"{piece.n_rows} rows were expected and {len(y)} found")
        return (X if self.zero_based else X[:, 1:]) if rows else None, y if target else None

    @property
    def piece_bytes(self) -> int:
        """Bytes of a block: an 8-byte number and its index take at least four characters of text."""
        return 3 * TEXT_BYTES

    def settings(self) -> dict[str, object]:
        """Return the width and the number of the first feature."""
        return {"n_features": self.n_features, "zero_based": self.zero_based}


def _parse(text: bytes, width: int | None) -> tuple[sp.csr_matrix, Array]:
    """Parse lines without changing their feature numbers."""
    # At the top of the file it would slow down ``import gramian``.
    from sklearn.datasets import load_svmlight_file

    try:
        return load_svmlight_file(io.BytesIO(text), n_features=width, zero_based=True)
    except ValueError:
        rows = [line for line in text.split(b"\n") if line.split(b"#")[0].strip()]
        for number, line in enumerate(rows):
            try:
                load_svmlight_file(io.BytesIO(line), n_features=width, zero_based=True)
            except ValueError as error:
                shown = line[:60].decode("utf-8", "replace")
                raise UnreadableRow(
                    number, f"{shown!r} is not 'target index:value …' ({shortened(str(error))})."
                ) from None
        raise
