"""Approximations of kernel matrices: one method a file, its transformer first and its builder below it."""

from gramian.approximations.block_basis import BlockBasis
from gramian.approximations.block_diagonal import BlockDiagonal
from gramian.approximations.clustered_low_rank import ClusteredLowRank
from gramian.approximations.ensemble_nystrom import EnsembleNystrom
from gramian.approximations.fastfood import Fastfood
from gramian.approximations.kals import KALS
from gramian.approximations.low_rank_plus_blocks import LowRankPlusBlocks
from gramian.approximations.meka import MEKA
from gramian.approximations.multiresolution import MultiResolution
from gramian.approximations.nystrom import Nystrom
from gramian.approximations.random_fourier import RandomFourier
from gramian.approximations.random_maclaurin import RandomMaclaurin
from gramian.approximations.tensor_sketch import TensorSketch
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
