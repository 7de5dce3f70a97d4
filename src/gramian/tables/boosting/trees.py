"""Sums of decision trees as arrays, which a model file can hold, and their values for rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from gramian._tiles import row_slices
from gramian._typing import Array, Float64Array, IntArray
from gramian.exceptions import InputError
from gramian.kernels.compiled import at_hand, run

if TYPE_CHECKING:
    from sklearn.base import BaseEstimator


#: Most leaves of a tree: one bit each of a 32-bit number. LEAF in place of a column marks a leaf.
MOST_LEAVES, LEAF = 32, -1
#: Codes of categories that a node may compare: whole numbers from 0; NONE is that of no known category.
CODES, NONE = 256, 255
#: Trees that are evaluated at a time, and rows at a time, so that the tables stay in cache. Chosen by hand.
TREES, ROWS = 64, 1_000
#: Up to this many rows are led through the trees, since tables pay for many rows only. Chosen by hand.
FEW_ROWS = 16
#: Nodes on the way to a leaf, about.
STEPS = 6
#: Attributes that follow from the others.
CACHED = ("_chunks", "_ways", "rights")

Masks = NDArray[np.uint32]
#: The place of a power of two, by the top five bits of its product with MULTIPLIER (Leiserson, Prokop and
#: Randall 1998).
MULTIPLIER = np.uint32(0x077CB531)
PLACES = np.zeros(32, np.intp)
PLACES[[((1 << bit) * int(MULTIPLIER) & 0xFFFFFFFF) >> 27 for bit in range(32)]] = np.arange(32)


@dataclass(frozen=True)
class Trees:
    r"""f(x) = starts + Σ_t v_t(x), where v_t is the number in the leaf of tree t that x reaches.

    columns : (nodes,), the column that a node looks at, −1 at a leaf. Nodes of a tree follow each other: a
    node, what lies to its left, what lies to its right.
    numbers : (nodes,), the threshold of a node, x to the left if x[column] ≤ threshold; the value of a leaf.
    sets : (nodes,), of a node that compares categories the row of ``lefts``, −1 of the others.
    lefts : (sets, 8) numbers of 32 bits: x goes to the left if bit number x[column] is 1.
    lengths, outputs : (trees,), the number of nodes of each tree, and the output that it adds to.
    starts : (outputs,).

    Where no compiled loop does, many rows are not led through the trees one node at a time. Each comparison
    that is false rules out the leaves to its left, so that the leaf is the first that no false comparison
    rules out: an AND of bits that are looked up by the place of x[column] among a column's thresholds. Time
    O(columns in use·trees) a row.
    Source: Lucchese et al. 2015 (QuickScorer).

    Raises ``InputError`` unless the nodes make trees of at most 32 leaves.
    """

    columns: IntArray
    numbers: Float64Array
    sets: IntArray
    lefts: Masks
    lengths: IntArray
    outputs: IntArray
    starts: Float64Array

    def __post_init__(self) -> None:
        nodes, trees = len(self.columns), len(self.lengths)
        fits = len(self.numbers) == nodes == int(np.sum(self.lengths)) and len(self.outputs) == trees
        fits &= len(self.sets) == nodes and np.shape(self.lefts)[1:] == (CODES // 32,)
        fits &= not nodes or bool(-1 <= np.min(self.sets) <= np.max(self.sets) < len(self.lefts))
        fits &= not trees or (int(np.min(self.columns, initial=0)) >= LEAF and int(np.min(self.lengths)) > 0)
        if not fits or (trees and not 0 <= np.min(self.outputs) <= np.max(self.outputs) < len(self.starts)):
            raise InputError(f"{nodes} nodes do not make {trees} trees of {len(self.starts)} outputs.")
        # A tree has one leaf more than other nodes, and each part of it that ends earlier has fewer.
        steps = np.where(np.asarray(self.columns) == LEAF, 1, -1)
        for first, last in self._places:
            sums = np.cumsum(steps[first:last])
            leaves = (last - first + 1) // 2
            if sums[-1] != 1 or (sums[:-1] > 0).any() or leaves > MOST_LEAVES:
                raise InputError(f"The nodes {first} to {last} are no tree of at most {MOST_LEAVES} leaves.")

    @classmethod
    def of_boosting(
        cls, models: Sequence[Any], rounds: int | None = None, edges: Mapping[int, Float64Array] | None = None
    ) -> Self:
        """Return the trees of the first rounds of scikit-learn's boosting, the models' outputs side by side.

        Its categories are whole numbers from 0 to 254. NONE stands for a missing or an unknown one; missing
        numbers are not known to the trees.

        edges : by column, where scikit-learn's trees have seen the numbers of bins in place of values. A
        value in bin b is above edges[b − 1] and at most edges[b]; the trees that are returned see values.
        """
        columns, numbers, lengths, outputs, starts = [], [], list[int](), list[int](), list[Float64Array]()
        sets, lefts = [], list[Masks]()
        for model in models:
            first = sum(map(len, starts))
            starts.append(np.asarray(model._baseline_prediction, np.float64).ravel())
            order, categories = _columns_of(model)
            for trees in model._predictors[:rounds]:
                for output, tree in enumerate(trees, first):
                    nodes = tree.nodes[_preorder(tree.nodes)]
                    leaf = nodes["is_leaf"].astype(bool)
                    columns.append(np.where(leaf, LEAF, order[nodes["feature_idx"]]))
                    numbers.append(np.where(leaf, nodes["value"], nodes["num_threshold"]))
                    own = np.full(len(nodes), -1)
                    for place in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~leaf):
                        node = nodes[place]
                        bits = tree.raw_left_cat_bitsets[node["bitset_idx"]]
                        own[place] = len(lefts)
                        lefts.append(_left_of(node, bits, categories[node["feature_idx"]]))
                    sets.append(own)
                    lengths.append(len(nodes))
                    outputs.append(output)
        places = np.concatenate([np.zeros(0), *columns]).astype(np.intp)
        values = np.concatenate([np.zeros(0), *numbers])
        for column, own in (edges or {}).items():
            at = places == column
            values[at] = own[np.floor(values[at]).astype(np.intp)]
        return cls(
            places,
            values,
            np.concatenate([np.zeros(0), *sets]).astype(np.intp),
            np.array(lefts, np.uint32).reshape(-1, CODES // 32),
            np.array(lengths, np.intp),
            np.array(outputs, np.intp),
            np.concatenate(starts),
        )

    @classmethod
    def none(cls) -> Self:
        """Return no trees: one output that is 0."""
        no = np.zeros(0, np.intp)
        return cls(no, np.zeros(0), no, np.zeros((0, CODES // 32), np.uint32), no, no, np.zeros(1))

    def predict(self, rows: Array) -> Float64Array:
        """Return f of rows (n, columns), shape (n, outputs). The trees' values are added in their order."""
        out = np.tile(self.starts, (len(rows), 1))
        if at_hand(len(rows) * len(self.lengths) * STEPS):
            columns, rights, firsts = self._ways
            nodes = columns, self.numbers, rights, self.sets, self.lefts
            run("walk", np.asarray(rows, np.float64), *nodes, firsts, self.outputs, out)
            return out
        if len(rows) <= FEW_ROWS and len(self.lengths):
            return self._led(np.asarray(rows, np.float64), out)
        for where in row_slices(len(rows), ROWS):
            part = np.asarray(rows[where], np.float64)
            for chunk in self._chunks:
                chunk.add(part, out[where])
        return out

    def _led(self, rows: Float64Array, out: Float64Array) -> Float64Array:
        """Add the trees' values to ``out`` by leading each row through each tree, one node at a time."""
        right, every = self.rights, np.arange(len(rows))[:, None]
        node = np.tile(np.cumsum(self.lengths) - self.lengths, (len(rows), 1))
        while True:
            column = self.columns[node]
            inner = column != LEAF
            if not inner.any():
                break
            x, own = rows[every, column], self.sets[node]
            left = x <= self.numbers[node]
            if len(self.lefts):
                code = np.where((x >= 0) & (x < NONE), x, NONE).astype(np.intp)
                left = np.where(
                    own < 0, left, self.lefts[own, code >> 5] >> (code & 31).astype(np.uint32) & 1
                )
            node = np.where(inner, np.where(left, node + 1, right[node]), node)
        values = self.numbers[node]
        for output in range(out.shape[1]):  # one after the other, as sums of numbers depend on their order
            terms = np.hstack([out[:, [output]], values[:, self.outputs == output]])
            out[:, output] = np.add.accumulate(terms, axis=1)[:, -1]
        return out

    @cached_property
    def rights(self) -> IntArray:
        """For each node the first node of what lies to its right."""
        rights = np.arange(len(self.columns))
        ends = np.arange(1, len(self.columns) + 1)  # of the part of the tree below each node
        for node in reversed(range(len(self.columns))):
            if self.columns[node] != LEAF:
                rights[node] = ends[node + 1]
                ends[node] = ends[rights[node]]
        return rights

    @cached_property
    def _ways(self) -> tuple[Array, ...]:
        """The columns, the right sides and the trees' first nodes as numbers of 32 bits without sign."""
        firsts = np.cumsum(self.lengths) - self.lengths
        return tuple(each.astype(np.uint32) for each in (self.columns, self.rights, firsts))

    @property
    def _places(self) -> Iterator[tuple[int, int]]:
        ends = np.cumsum(self.lengths).tolist()
        return zip([0, *ends[:-1]], ends, strict=False)

    @cached_property
    def _chunks(self) -> tuple[_Chunk, ...]:
        places = list(self._places)
        return tuple(
            _Chunk.of(self, places[first : first + TREES], self.outputs[first : first + TREES])
            for first in range(0, len(places), TREES)
        )

    def __getstate__(self) -> dict[str, Any]:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name not in CACHED}


@dataclass(frozen=True)
class _Chunk:
    """Some trees: for each column what each of its values rules out.

    tables : column, thresholds (m,) ascending, and the leaves that are left, (m + 1, trees), by the number of
    thresholds below x; coded : column, and the leaves that are left, (CODES, trees), by the code of a
    category; values : (trees, 32) of leaves; outputs : (trees,), what a tree adds to.
    """

    tables: tuple[tuple[int, Float64Array, Masks], ...]
    coded: tuple[tuple[int, Masks], ...]
    values: Float64Array
    outputs: IntArray

    @classmethod
    def of(cls, trees: Trees, places: list[tuple[int, int]], outputs: IntArray) -> Self:
        values = np.zeros((len(places), MOST_LEAVES))
        splits: dict[int, list[tuple[float, int, int]]] = {}
        coded: dict[int, Masks] = {}
        for tree, (first, last) in enumerate(places):
            leaf = 0
            for node, column in enumerate(trees.columns[first:last].tolist(), first):
                number = float(trees.numbers[node])
                if column == LEAF:
                    values[tree, leaf] = number
                    leaf += 1
                    continue
                # A part of m nodes has (m + 1)/2 leaves; those to the left of this node come next.
                right = leaf + int(trees.rights[node] - node) // 2
                left = 0xFFFFFFFF ^ ((1 << right) - (1 << leaf))
                if trees.sets[node] < 0:
                    splits.setdefault(column, []).append((number, tree, left))
                else:
                    masks = coded.setdefault(column, np.full((CODES, len(places)), 0xFFFFFFFF, np.uint32))
                    masks[~_bits(trees.lefts[trees.sets[node]]), tree] &= np.uint32(left)
        tables = []
        for column, compared in sorted(splits.items()):
            compared.sort()
            masks = np.full((len(compared) + 1, len(places)), 0xFFFFFFFF, np.uint32)
            for row, (_, tree, mask) in enumerate(compared, 1):
                masks[row, tree] = mask
            thresholds = np.array([number for number, _, _ in compared])
            tables.append((column, thresholds, np.bitwise_and.accumulate(masks, axis=0)))
        return cls(tuple(tables), tuple(sorted(coded.items())), values, np.asarray(outputs))

    def add(self, rows: Float64Array, out: Float64Array) -> None:
        """Add the values of these trees for rows (n, columns) to ``out`` (n, outputs)."""
        left = np.full((len(rows), len(self.values)), 0xFFFFFFFF, np.uint32)
        for column, thresholds, masks in self.tables:
            left &= masks[np.searchsorted(thresholds, rows[:, column])]
        for column, masks in self.coded:
            codes = rows[:, column]
            left &= masks[np.where((codes >= 0) & (codes < NONE), codes, NONE).astype(np.intp)]
        lowest = left & (~left + np.uint32(1))
        leaves = PLACES[(lowest * MULTIPLIER) >> np.uint32(27)]
        for tree, output in enumerate(self.outputs.tolist()):
            out[:, output] += self.values[tree, leaves[:, tree]]


def _preorder(nodes: Array) -> IntArray:
    """Return scikit-learn's nodes in order: a node, what lies to its left, what lies to its right."""
    order, waiting = list[int](), [0]
    while waiting:
        node = waiting.pop()
        order.append(node)
        if not nodes["is_leaf"][node]:
            waiting += [int(nodes["right"][node]), int(nodes["left"][node])]
    return np.array(order, np.intp)


def _columns_of(model: BaseEstimator) -> tuple[IntArray, list[IntArray]]:
    """Return the column of each number that scikit-learn's trees compare, and the categories of the first.

    It puts the columns of categories before the others, and numbers the categories that it has seen.
    """
    if model._preprocessor is None:
        return np.arange(model.n_features_in_), []
    coded = np.asarray(model.is_categorical_, bool)
    encoder = model._preprocessor.named_transformers_["encoder"]
    known = [np.asarray(each, np.float64) for each in encoder.categories_]
    order = np.concatenate([np.flatnonzero(coded), np.flatnonzero(~coded)])
    return order, [each[~np.isnan(each)].astype(np.intp) for each in known]


def _left_of(node: np.void, bits: Masks, categories: IntArray) -> Masks:
    """Return the codes that go to the left of a node, as bits; unknown ones go where missing ones go."""
    left = np.full(CODES, bool(node["missing_go_to_left"]))
    left[categories] = _bits(bits)[: len(categories)]
    return np.packbits(left, bitorder="little").view("<u4").astype(np.uint32)


def _bits(numbers: Masks) -> NDArray[np.bool_]:
    """Return the 256 bits of eight numbers, the lowest bit of the first one first."""
    return np.unpackbits(np.asarray(numbers, "<u4").view(np.uint8), bitorder="little").astype(bool)
