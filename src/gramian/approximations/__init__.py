"""Approximations of kernel matrices: a transformer and its builder each; methods of one kind share a file."""

from gramian.approximations.block_basis import BlockBasis
from gramian.approximations.block_diagonal import BlockDiagonal, LowRankPlusBlocks
from gramian.approximations.clustered_low_rank import ClusteredLowRank
from gramian.approximations.kals import KALS
from gramian.approximations.meka import MEKA
from gramian.approximations.multiresolution import MultiResolution
from gramian.approximations.nystrom import EnsembleNystrom, Nystrom
from gramian.approximations.polynomial_maps import RandomMaclaurin, TensorSketch
from gramian.approximations.random_fourier import Fastfood, RandomFourier
from gramian.approximations.truncated_eigen import TruncatedEigen

__all__ = [
    "KALS",
    "MEKA",
    "BlockBasis",
    "BlockDiagonal",
    "ClusteredLowRank",
    "EnsembleNystrom",
    "Fastfood",
    "LowRankPlusBlocks",
    "MultiResolution",
    "Nystrom",
    "RandomFourier",
    "RandomMaclaurin",
    "TensorSketch",
    "TruncatedEigen",
]
