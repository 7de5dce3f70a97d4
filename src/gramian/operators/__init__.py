"""Kernel matrices as operators, K itself and its compressed forms, in the words of SciPy's LinearOperator."""

from gramian.operators.basis import BasisLevel
from gramian.operators.block import BlockOperator, CrossOperator
from gramian.operators.diagonal import DiagonalPlus
from gramian.operators.kernel import KernelOperator
from gramian.solvers.core import CoupledCore

__all__ = ["BasisLevel", "BlockOperator", "CoupledCore", "CrossOperator", "DiagonalPlus", "KernelOperator"]
