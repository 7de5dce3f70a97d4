"""Gram operators: K̃ = Σ W_l W_lᵀ with a core on the last level, in SciPy's LinearOperator words."""

from gramian.operators.basis import BasisLevel
from gramian.operators.block import BlockOperator
from gramian.operators.cross import CrossOperator
from gramian.operators.diagonal import DiagonalPlus
from gramian.solvers.core import CoupledCore

__all__ = ["BasisLevel", "BlockOperator", "CoupledCore", "CrossOperator", "DiagonalPlus"]
