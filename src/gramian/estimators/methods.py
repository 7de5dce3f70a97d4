"""The approximations by the name that ``approximation=`` takes."""

from __future__ import annotations

from gramian.approximation.block_basis import BlockBasisBuilder
from gramian.approximation.builder import Builder
from gramian.approximation.meka import MEKABuilder
from gramian.approximation.multiresolution import MultiResolutionBuilder
from gramian.estimators.approximation import Approximation
from gramian.estimators.block_basis import BlockBasis
from gramian.estimators.meka import MEKA
from gramian.estimators.multiresolution import MultiResolution

METHODS: dict[str, type[Approximation]] = {
    "multiresolution": MultiResolution,
    "meka": MEKA,
    "bbf": BlockBasis,
}
#: What their fits build, for model files.
BUILDERS: tuple[type[Builder], ...] = (BlockBasisBuilder, MEKABuilder, MultiResolutionBuilder)
