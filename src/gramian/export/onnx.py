"""Export to an ONNX graph of standard operators. The only file that imports onnx."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian._typing import Array
from gramian.exceptions import InputError, MissingPackageError
from gramian.export.description import Description
from gramian.fast.serving.flat import FlatPredictor

#: Versions of 2021 and 2022, which every later runtime reads.
OPSET, IR_VERSION = 17, 8
#: Rows computed at a time. Each row gets a copy of its leaf's numbers, so this bounds the memory. Chosen by
#: hand.
TILE_ROWS = 512


def onnx_bytes(model: Description) -> bytes:
    """Return the serialized graph, checked by onnx.

    The input is ``X``, float32 (n, d). A classifier has the outputs ``label`` (n,), int64, double or string,
    and ``decision``; a regressor has ``value``. Both are float32 of the shape that the model returns.

    Rows are computed in tiles of at most 512 by a ``Scan``. Each row gathers the numbers of its leaf,
    (2r + 1)(u + outputs) + u·outputs of them for r directions and u units, so the extra memory is 512 times
    that for any n. A model with a single leaf needs no ``Scan``.
    """
    if model.table is not None:
        raise InputError("Fast models of tables can be exported as .py and .c only.")
    onnx = _onnx()
    flat, labels = model.flat, model.labels
    number = onnx.helper.np_dtype_to_tensor_dtype(flat.dtype)
    graph = _Graph(onnx)
    rows = graph("Cast", "X", to=number)
    values = _leaf_values(graph, flat, rows) if flat.n_leaves == 1 else _by_tiles(graph, flat, rows)
    single = graph("Cast", values, to=onnx.TensorProto.FLOAT)
    shaped = graph("Squeeze", single, graph.constant([1])) if model.one_value else single
    answer = "value" if labels is None else "decision"
    graph("Identity", shaped, output=answer)
    size = None if model.one_value else flat.n_outputs
    float32 = onnx.TensorProto.FLOAT
    outputs = [_info(onnx, answer, float32, ["n"] if size is None else ["n", size])]
    if labels is not None:
        if len(labels) == 2:
            above = graph("Greater", shaped, graph.constant(np.float32(0)))
            place = graph("Cast", above, to=onnx.TensorProto.INT64)
        else:
            place = graph("ArgMax", single, axis=1, keepdims=0)
        text = labels.dtype.kind == "U"
        table = graph.constant(labels.astype(object) if text else labels)
        graph("Gather", table, place, output="label", axis=0)
        kind = onnx.TensorProto.STRING if text else onnx.helper.np_dtype_to_tensor_dtype(labels.dtype)
        outputs.insert(0, _info(onnx, "label", kind, ["n"]))
    inputs = [_info(onnx, "X", float32, ["n", flat.n_features])]
    body = onnx.helper.make_graph(graph.nodes, "fast_kernel", inputs, outputs, graph.initializers)
    made = onnx.helper.make_model(
        body,
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="gramian",
        doc_string=model.title,
    )
    onnx.checker.check_model(made, full_check=True)
    return bytes(made.SerializeToString())


def _by_tiles(graph: _Graph, flat: FlatPredictor, rows: str) -> str:
    """Return the values of rows (n, d), computed in as few tiles as possible, all of equal height."""
    onnx = graph.onnx
    one, zero, d = graph.constant([1]), graph.constant([0]), graph.constant([flat.n_features])
    n = graph("Shape", "X", start=0, end=1)
    full = graph("Div", graph("Add", n, graph.constant([TILE_ROWS - 1])), graph.constant([TILE_ROWS]))
    tiles = graph("Max", full, one)
    height = graph("Div", graph("Sub", graph("Add", n, tiles), one), tiles)
    places = graph("Mul", tiles, height)
    added = graph("Concat", zero, zero, graph("Sub", places, n), zero, axis=0)
    padded = graph("Pad", rows, added)
    tiled = graph("Reshape", padded, graph("Concat", tiles, height, d, axis=0), allowzero=1)
    inner = _Graph(onnx, graph)
    inner("Identity", _leaf_values(inner, flat, "tile"), output="tile_values")
    number = onnx.helper.np_dtype_to_tensor_dtype(flat.dtype)
    body = onnx.helper.make_graph(
        inner.nodes,
        "tile",
        [_info(onnx, "tile", number, ["height", flat.n_features])],
        [_info(onnx, "tile_values", number, ["height", flat.n_outputs])],
    )
    found = graph("Scan", tiled, body=body, num_scan_inputs=1)
    outputs = graph.constant([flat.n_outputs])
    together = graph("Reshape", found, graph("Concat", places, outputs, axis=0), allowzero=1)
    return graph("Slice", together, zero, n, zero)


def _leaf_values(graph: _Graph, flat: FlatPredictor, rows: str) -> str:
    """Return the values (n, outputs) of rows (n, d)."""
    u, dtype = flat.n_units, flat.dtype
    product = graph("MatMul", rows, graph.constant(flat.projection))
    z = graph("Sub", product, graph.constant(flat.offset))
    with_one = graph("Pad", z, graph.constant([0, 0, 0, 1]), graph.constant(dtype.type(1)))
    points = graph("Concat", with_one, graph("Mul", z, z), axis=1)
    if flat.n_leaves == 1:  # one product for all rows
        leaf = None
    else:
        leaf = _leaf(graph, flat, with_one)
        points = graph("Unsqueeze", points, graph.constant([1]))  # (n, 1, 2r + 1): each row by its leaf

    def of_leaf(numbers: Array) -> str:
        if leaf is None:
            return graph.constant(numbers[0])
        return graph("Gather", graph.constant(numbers), leaf, axis=0)

    found = graph("MatMul", points, of_leaf(flat.forms))
    if u:
        axis, middle = graph.constant([-1]), graph.constant([u])
        exponents = graph("Slice", found, graph.constant([0]), middle, axis)
        linear = graph("Slice", found, middle, graph.constant([u + flat.n_outputs]), axis)
        units = graph("MatMul", graph("Exp", exponents), of_leaf(flat.weights))
        found = graph("Add", units, linear)
    return found if leaf is None else graph("Squeeze", found, graph.constant([1]))


def _leaf(graph: _Graph, flat: FlatPredictor, points: str) -> str:
    """Return the leaf (n,) of points [z, 1]: evaluate all half-spaces, then take a step for each level."""
    sides = graph("MatMul", points, graph.constant(flat.planes.T))
    above = graph("Greater", sides, graph.constant(flat.dtype.type(0)))
    # A step goes from node i to 2 i + 1, plus one if the row is on the positive side.
    steps = graph("Cast", above, to=graph.onnx.TensorProto.INT64)
    one = graph.constant([[1]])
    node = graph("Slice", steps, graph.constant([0]), graph.constant([1]), graph.constant([1]))
    node = graph("Add", node, one)
    for _ in range(1, flat.levels):
        step = graph("GatherElements", steps, node, axis=1)
        node = graph("Add", graph("Add", graph("Add", node, node), step), one)
    leaf = graph("Sub", node, graph.constant([[len(flat.planes)]]))
    return graph("Squeeze", leaf, graph.constant([1]))


class _Graph:
    """Builder of a graph; calling it adds a node and returns the name of the node's output.

    outer : the graph around this one, which keeps the constants of both, since a body may read them.
    """

    def __init__(self, onnx: Any, outer: _Graph | None = None) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self._outer = outer
        self.initializers: list[Any] = [] if outer is None else outer.initializers
        self._names: dict[Any, str] = {} if outer is None else outer._names

    def __call__(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        prefix = "" if self._outer is None else "tile_"
        name = output or f"{prefix}{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        """Add a constant and return its name; equal small constants are stored once."""
        array: Array = np.asarray(values)
        key = (array.tobytes(), array.dtype.str, array.shape) if array.dtype != object else id(values)
        if key not in self._names:
            self._names[key] = f"constant_{len(self.initializers)}"
            made = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))
            made.name = self._names[key]
            self.initializers.append(made)
        return self._names[key]


def _info(onnx: Any, name: str, kind: int, shape: list[str | int]) -> Any:
    return onnx.helper.make_tensor_value_info(name, kind, shape)


def _onnx() -> Any:
    """Import onnx; no other place does."""
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError as error:
        raise MissingPackageError(
            "ONNX files need the package onnx, which is not installed. Run: pip install 'gramian[export]'"
        ) from error
    return onnx
