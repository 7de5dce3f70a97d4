"""Models of mixed tables: columns, their conversion to numbers, scaling, and the target."""

from gramian.tables.column import Column, Feature
from gramian.tables.columns import TableColumns
from gramian.tables.encoded import EncodedRows
from gramian.tables.scaling import Scaling
from gramian.tables.target import TargetTransform

__all__ = ["Column", "EncodedRows", "Feature", "Scaling", "TableColumns", "TargetTransform"]
