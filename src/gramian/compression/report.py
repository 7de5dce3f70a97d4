"""Report of a fitted approximation: sizes, errors by block, and a one-sentence verdict."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from gramian._budget import format_bytes
from gramian._numerics import entry_tolerance
from gramian.compression.features import FeatureMap
from gramian.compression.quality import ErrorEstimate, SpectralError, measure, spectral_error
from gramian.compression.residual import Residual
from gramian.operators.block import BlockOperator
from gramian.operators.diagonal import DiagonalPlus
from gramian.summary import Grid, Shown, Summary, aligned, spread_grid

#: Number of worst blocks in the printed table. Chosen by hand.
WORST = 5
#: Largest number of blocks that a summary lists. Chosen by hand.
MOST_LISTED = 50
#: The verdict names a part of the matrix if it holds this share of the squared error. Chosen by hand.
MOST = 0.5
#: The verdict calls an error local if the worst blocks' share of it is this many times their share of the
#: rows. Chosen by hand.
CONCENTRATED = 2.0
#: The verdict calls an estimate vague if its interval is wider than this multiple of it. Chosen by hand.
VAGUE = 0.5
#: Number of rows, and relative width of the bounds, for ‖K − K̃‖₂ in a report. Chosen by hand.
SPECTRAL_ROWS, SPECTRAL_TOL = 4000, 0.25


@dataclass(frozen=True)
class BlockShare:
    """Share of a leaf block's rows in ‖K − K̃‖_F², over columns inside and outside the block."""

    block: int
    rows: int
    rank: int
    share: float


@dataclass(frozen=True)
class Report(Shown):
    """Sizes of a fit, and its errors if rows were given; ``str`` gives a table and a verdict."""

    method: str
    n_rows: int
    dtype: str
    levels: tuple[tuple[int, ...], ...]  #: ranks of the blocks, level by level
    coupled: bool  #: whether a core couples the blocks of the last level
    stored_diagonal: bool
    nbytes: int
    clipped: float  #: sum of the magnitudes of negative eigenvalues that a solve has clipped
    notes: dict[str, float] = field(default_factory=dict)  #: facts that the build reported
    frobenius: ErrorEstimate | None = None
    spectral: SpectralError | None = None
    trace: ErrorEstimate | None = None
    diagonal: float = 0.0  #: share of ‖K − K̃‖_F² on the diagonal
    inside: float = 0.0  #: share inside the diagonal blocks
    blocks: tuple[BlockShare, ...] = ()  #: worst block first
    judgement: str = "Pass rows to learn the error."

    @property
    def rank(self) -> int:
        """Columns of all blocks together."""
        return sum(map(sum, self.levels))

    @property
    def dense_bytes(self) -> int:
        """Bytes of K itself in the same precision."""
        return self.n_rows**2 * np.dtype(self.dtype).itemsize

    @property
    def warnings(self) -> tuple[str, ...]:
        """What one should know before trusting the matrix."""
        text = f"Negative eigenvalues with sum {-self.clipped:.3g} were clipped to zero in a solve."
        return (text,) if self.clipped else ()

    def rows(self) -> list[tuple[str, str]]:
        """Return the lines of the table as pairs of a name and a text."""
        extras = ", coupled by a core" * self.coupled + ", diagonal stored" * self.stored_diagonal
        table = [
            ("method", self.method),
            ("rows", f"{self.n_rows:,}"),
            ("rank", f"{self.rank:,} ({', '.join(map(_ranks, self.levels))}{extras})"),
            (
                "memory",
                f"{format_bytes(self.nbytes)} in {self.dtype}, {self.nbytes / self.dense_bytes:.2g} of "
                f"K's {format_bytes(self.dense_bytes)}",
            ),
        ]
        if (error := self.frobenius) is not None:
            ends = f", 95 % within {error.low:.3g} and {error.high:.3g}," if error.low != error.high else ""
            table.append(("Frobenius error", f"{error:.3g}{ends} of ‖K‖_F"))
        if self.spectral is not None:
            table.append(("spectral error", _spectral(self.spectral)))
        if self.trace is not None:
            table.append(("trace error", f"{self.trace:.3g} of tr(K)"))
            table.append(("where", self._where()))
        for b in self.blocks[:WORST] if len(self.blocks) > 1 else ():
            name = f"block {b.block}"
            table.append((name, f"{b.share:.0%} of the squared error, {b.rows:,} rows, rank {b.rank}"))
        if self.clipped:
            table.append(("clipped", f"negative eigenvalues with sum {-self.clipped:.3g}"))
        return table + [(name, f"{value:.4g}") for name, value in self.notes.items()]

    def __str__(self) -> str:
        return "\n".join([*aligned(self.rows()), self.judgement])

    def summary(self) -> Summary:
        """Return table and verdict, with the ranks of the levels and a list of blocks."""
        table = [(name, text) for name, text in self.rows() if not name.startswith("block ")]
        grids = [spread_grid("Ranks", "level", [(str(i), ranks) for i, ranks in enumerate(self.levels)])]
        if self.blocks:
            worst = self.blocks[:MOST_LISTED]
            rows = [(str(b.block), f"{b.rows:,}", f"{b.rank:,}", f"{b.share:.2%}") for b in worst]
            columns = ("block", "rows", "rank", "share of the squared error")
            title = f"Error by block: the worst {len(worst)} of {len(self.blocks)}"
            grids.append(Grid(title, columns, tuple(rows)))
        return Summary(self.method, tuple(table), tuple(grids), self.warnings, self.judgement)

    def with_errors(self, residual: Residual, *, n_rows: int, rng: np.random.Generator) -> Report:
        """Return the report with error estimates over the rows of the residual."""
        errors = measure(residual, n_rows=n_rows, rng=rng)
        total = float(errors.squared.sum())
        part = 1.0 / total if total > 0 else 0.0
        order = np.argsort(-errors.squared, kind="stable")
        blocks = (
            tuple(
                BlockShare(int(s), int(errors.counts[s]), self.levels[-1][s], float(part * errors.squared[s]))
                for s in order
                if errors.counts[s]
            )
            if len(self.levels[-1]) > 1
            else ()
        )
        full = replace(
            self,
            frobenius=errors.relative,
            trace=errors.trace,
            spectral=spectral_error(residual, n_rows=SPECTRAL_ROWS, tol=SPECTRAL_TOL, rng=rng),
            diagonal=part * errors.diagonal,
            inside=part * errors.inside,
            blocks=blocks,
        )
        return replace(full, judgement=judge(full))

    def _where(self) -> str:
        on = f"diagonal {self.diagonal:.0%}"
        if not self.blocks:
            return f"{on}, off it {1.0 - self.diagonal:.0%}"
        rest, between = max(self.inside - self.diagonal, 0.0), max(1.0 - self.inside, 0.0)
        return f"{on}, rest of the diagonal blocks {rest:.0%}, between blocks {between:.0%}"


def report_sizes(method: str, features: FeatureMap, operator: BlockOperator | DiagonalPlus) -> Report:
    """Return the report of a fit with sizes only, without errors."""
    notes = dict(features.notes)
    if isinstance(operator, DiagonalPlus) and operator.excess_:
        notes["diagonal left out"] = operator.excess_
    forest = features.forest
    return Report(
        method,
        operator.shape[0],
        features.dtype.name,
        tuple(forest.ranks[level] for level in forest.levels),
        features.core is not None,
        isinstance(operator, DiagonalPlus),
        operator.nbytes,
        operator.clipped_,
        notes,
    )


def judge(report: Report) -> str:
    """Say in a sentence or two where the error lies and what would lower it."""
    error = report.frobenius
    if error is None:
        return report.judgement
    vague = (
        f" The interval is wide: look at more than {error.n_rows} rows."
        if error.high - error.low > VAGUE * error
        else ""
    )
    if error <= entry_tolerance(report.dtype):
        return "K̃ equals K to rounding." + vague
    if report.diagonal > MOST:
        return (
            f"{report.diagonal:.0%} of the squared error is on the diagonal: the kernel is narrow beside "
            "the distances between rows, which no rank mends. Widen it, or store the diagonal." + vague
        )
    if report.inside <= MOST:
        return f"{1 - report.inside:.0%} of the squared error lies between blocks: " + _advice(report) + vague
    if not report.blocks:
        return "The basis is global: raise its rank." + vague
    shares = np.cumsum([b.share for b in report.blocks])
    few = int(np.searchsorted(shares, MOST)) + 1
    holders = report.blocks[:few]
    part = sum(b.rows for b in holders) / sum(b.rows for b in report.blocks)
    if shares[few - 1] > CONCENTRATED * part:
        names = ", ".join(str(b.block) for b in holders[:WORST]) + ", …" * (few > WORST)
        plural = "s" * (few > 1)
        return (
            f"{shares[few - 1]:.0%} of the squared error lies in {few} of {len(report.blocks)} blocks "
            f"({names}) with {part:.0%} of the rows: raise the rank of the block{plural}, or split "
            f"{'them' if few > 1 else 'it'}." + vague
        )
    return f"{report.inside:.0%} of the squared error lies inside the blocks, evenly: raise rank." + vague


def _advice(report: Report) -> str:
    if report.coupled:
        return "raise rank, so that each basis meets the other blocks' rows too, or take fewer blocks."
    if len(report.levels) > 1:
        return "raise root_rank, or take fewer blocks."
    return "the blocks are not coupled. Take a method with a global basis or a core, or fewer blocks."


def _ranks(level: tuple[int, ...]) -> str:
    if len(level) == 1:
        return str(level[0])
    least, most = min(level), max(level)
    return f"{len(level)} blocks of {least}" + (f" to {most}" if most > least else "")


def _spectral(error: SpectralError) -> str:
    relative = f"{float(error):.3g}, {error.relative:.2g} of ‖K‖₂"
    if np.isinf(error.high):
        return f"about {relative}, from {error.n_rows:,} rows; at least {error.low:.3g}"
    return f"{relative}, 95 % within {error.low:.3g} and {error.high:.3g}"
