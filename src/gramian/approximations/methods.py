"""The approximations by the name that ``approximation=`` takes."""

from __future__ import annotations

from gramian.approximations.approximation import Approximation
from gramian.approximations.block_basis import BlockBasis
from gramian.approximations.block_basis_projected import BlockBasisBuilder
from gramian.approximations.block_basis_sampled import SampledBasisBuilder
from gramian.approximations.block_diagonal import BlockDiagonal
from gramian.approximations.block_diagonal_builder import BlockDiagonalBuilder
from gramian.approximations.clustered_low_rank import ClusteredLowRank
from gramian.approximations.clustered_low_rank_builder import ClusteredLowRankBuilder
from gramian.approximations.ensemble_nystrom import EnsembleNystrom
from gramian.approximations.ensemble_nystrom_builder import EnsembleNystromBuilder
from gramian.approximations.fastfood import Fastfood
from gramian.approximations.fastfood_map import FastfoodBuilder
from gramian.approximations.kals import KALS
from gramian.approximations.kals_builder import KALSBuilder
from gramian.approximations.low_rank_plus_blocks import LowRankPlusBlocks
from gramian.approximations.low_rank_plus_blocks_builder import LowRankPlusBlocksBuilder
from gramian.approximations.meka import MEKA
from gramian.approximations.meka_builder import MEKABuilder
from gramian.approximations.multiresolution import MultiResolution
from gramian.approximations.multiresolution_builder import MultiResolutionBuilder
from gramian.approximations.nystrom import Nystrom
from gramian.approximations.nystrom_builder import NystromBuilder
from gramian.approximations.random_fourier import RandomFourier
from gramian.approximations.random_fourier_map import RandomFourierBuilder
from gramian.approximations.random_maclaurin import RandomMaclaurin
from gramian.approximations.random_maclaurin_map import RandomMaclaurinBuilder
from gramian.approximations.tensor_sketch import TensorSketch
from gramian.approximations.tensor_sketch_map import TensorSketchBuilder
from gramian.approximations.truncated_eigen import TruncatedEigen
from gramian.approximations.truncated_eigen_builder import TruncatedEigenBuilder
from gramian.compression.builder import Builder

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
