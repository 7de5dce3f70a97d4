"""Tables as they are: what their columns are, their rows as numbers, the scales of these, the target."""

from gramian.tables.column import Column, Feature
from gramian.tables.columns import TableColumns
from gramian.tables.encoded import EncodedRows
from gramian.tables.scaling import Scaling
from gramian.tables.target import TargetTransform

__all__ = ["Column", "EncodedRows", "Feature", "Scaling", "TableColumns", "TargetTransform"]
