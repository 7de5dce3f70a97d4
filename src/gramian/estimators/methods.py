"""The approximations by the name that ``approximation=`` takes."""

from __future__ import annotations

from gramian.approximation.block_basis import BlockBasisBuilder
from gramian.approximation.block_basis_sampled import SampledBasisBuilder
from gramian.approximation.block_diagonal import BlockDiagonalBuilder
from gramian.approximation.builder import Builder
from gramian.approximation.clustered_low_rank import ClusteredLowRankBuilder
from gramian.approximation.ensemble import EnsembleNystromBuilder
from gramian.approximation.fastfood import FastfoodBuilder
from gramian.approximation.kals import KALSBuilder
from gramian.approximation.low_rank_plus_blocks import LowRankPlusBlocksBuilder
from gramian.approximation.meka import MEKABuilder
from gramian.approximation.multiresolution import MultiResolutionBuilder
from gramian.approximation.nystrom import NystromBuilder
from gramian.approximation.random_fourier import RandomFourierBuilder
from gramian.approximation.random_maclaurin import RandomMaclaurinBuilder
from gramian.approximation.tensor_sketch import TensorSketchBuilder
from gramian.approximation.truncated_eigen import TruncatedEigenBuilder
from gramian.estimators.approximation import Approximation
from gramian.estimators.block_basis import BlockBasis
from gramian.estimators.block_diagonal import BlockDiagonal
from gramian.estimators.clustered_low_rank import ClusteredLowRank
from gramian.estimators.ensemble_nystrom import EnsembleNystrom
from gramian.estimators.fastfood import Fastfood
from gramian.estimators.kals import KALS
from gramian.estimators.low_rank_plus_blocks import LowRankPlusBlocks
from gramian.estimators.meka import MEKA
from gramian.estimators.multiresolution import MultiResolution
from gramian.estimators.nystrom import Nystrom
from gramian.estimators.random_fourier import RandomFourier
from gramian.estimators.random_maclaurin import RandomMaclaurin
from gramian.estimators.tensor_sketch import TensorSketch
from gramian.estimators.truncated_eigen import TruncatedEigen

METHODS: dict[str, type[Approximation]] = {
    "multiresolution": MultiResolution,
    "meka": MEKA,
    "bbf": BlockBasis,
    "nystrom": Nystrom,
    "ensemblenystrom": EnsembleNystrom,
    "kals": KALS,
    "blockdiagonal": BlockDiagonal,
    "lowrankplusblocks": LowRankPlusBlocks,
    "truncatedeigen": TruncatedEigen,
    "clusteredlowrank": ClusteredLowRank,
    "randomfourier": RandomFourier,
    "fastfood": Fastfood,
    "randommaclaurin": RandomMaclaurin,
    "tensorsketch": TensorSketch,
}
#: What their fits build, for model files.
BUILDERS: tuple[type[Builder], ...] = (
    BlockBasisBuilder,
    ClusteredLowRankBuilder,
    TruncatedEigenBuilder,
    LowRankPlusBlocksBuilder,
    BlockDiagonalBuilder,
    EnsembleNystromBuilder,
    FastfoodBuilder,
    KALSBuilder,
    MEKABuilder,
    MultiResolutionBuilder,
    NystromBuilder,
    RandomFourierBuilder,
    RandomMaclaurinBuilder,
    SampledBasisBuilder,
    TensorSketchBuilder,
)
