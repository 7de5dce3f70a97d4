"""Export to an ONNX graph of standard operators. The only file that imports onnx."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian._typing import Array
from gramian.exceptions import MissingPackageError
from gramian.export.description import Description
from gramian.export.onnx_graph import Graph
from gramian.export.onnx_table import ML, encoded_rows, predictions, probabilities, table_inputs
from gramian.fast.serving.flat import FlatPredictor

#: Versions of 2021 and 2022, which every later runtime reads.
OPSET, IR_VERSION = 17, 8
#: Table models need these versions of 2023, the first whose Equal compares strings.
TABLE_OPSET, TABLE_IR_VERSION = 19, 9
#: Rows computed at a time. Each row gets a copy of its leaf's numbers, so this bounds the memory. Chosen by
#: hand.
TILE_ROWS = 512


def onnx_bytes(model: Description) -> bytes:
    """Return the serialized graph, checked by onnx.

    The input is ``X``, float32 (n, d). A classifier has the outputs ``label`` (n,), int64, double or string,
    and ``decision``; a regressor has ``value``. Both are float32 of the shape that the model returns.

    A model of tables has an input (n,) for each column that it uses, with the column's name: a string for
    categories that are text, else double, or float32 if that holds all numbers of the training rows. Its
    outputs are double, and its classifiers have the output ``probabilities`` (n, classes) too. Text is
    compared by Equal, which knows strings from opset 19 on: plain ``ai.onnx`` suffices, unless a category of
    text has a number for each of many levels, which ``LabelEncoder`` of ``ai.onnx.ml`` finds.

    Rows are computed in tiles of at most 512 by a ``Scan``. Each row gathers the numbers of its leaf,
    (2r + 1)(u + outputs) + u·outputs of them for r directions and u units, so the extra memory is 512 times
    that for any n. A model with a single leaf needs no ``Scan``.
    """
    onnx = _onnx()
    flat, labels, table = model.flat, model.labels, model.table
    answer = "value" if labels is None else "decision"
    names = [answer] if labels is None else ["label", answer]
    real: Any = np.float32
    if table is not None and table.calibration is not None:
        names.append("probabilities")
    graph = Graph(onnx, names)
    if table is None:
        inputs, rows = [graph.info("X", np.float32, ["n", flat.n_features])], "X"
    else:
        columns, inputs = table_inputs(graph, table)
        rows, real = encoded_rows(graph, table, columns), np.float64
    if flat.center is not None:
        rows = graph("Sub", graph.cast(rows, np.float64), flat.center)
    rows = graph.cast(rows, flat.dtype)
    values = _leaf_values(graph, flat, rows) if flat.n_leaves == 1 else _by_tiles(graph, flat, rows)
    values = graph.cast(values, real)
    if table is not None and labels is None:
        values = predictions(graph, table, values)
    shaped = graph("Squeeze", values, [1]) if model.one_value else values
    graph("Identity", shaped, output=answer)
    outputs = [graph.info(answer, real, ["n"] if model.one_value else ["n", flat.n_outputs])]
    if labels is not None:
        if len(labels) == 2:
            place = graph.cast(graph("Greater", shaped, real(0)), np.int64)
        else:
            place = graph("ArgMax", values, axis=1, keepdims=0)
        text = labels.dtype.kind == "U"
        listed = labels.astype(object) if text else labels
        graph("Gather", listed, place, output="label", axis=0)
        outputs.insert(0, graph.info("label", str if text else labels.dtype, ["n"]))
    if table is not None and table.calibration is not None and labels is not None:
        graph("Identity", probabilities(graph, values, table, len(labels)), output="probabilities")
        outputs.append(graph.info("probabilities", real, ["n", len(labels)]))
    body = onnx.helper.make_graph(graph.nodes, "fast_kernel", inputs, outputs, graph.initializers)
    opset, ir_version = (OPSET, IR_VERSION) if table is None else (TABLE_OPSET, TABLE_IR_VERSION)
    used = {node.domain for node in graph.nodes}
    domains = [("", opset), *(each for each in (ML,) if each[0] in used)]
    made = onnx.helper.make_model(
        body,
        opset_imports=[onnx.helper.make_opsetid(*each) for each in domains],
        ir_version=ir_version,
        producer_name="gramian",
        doc_string=model.title,
    )
    onnx.checker.check_model(made, full_check=True)
    return bytes(made.SerializeToString())


def _by_tiles(graph: Graph, flat: FlatPredictor, rows: str) -> str:
    """Return the values of rows (n, d), computed in as few tiles as possible, all of equal height."""
    onnx = graph.onnx
    one, zero, d = [1], [0], [flat.n_features]
    n = graph("Shape", rows, start=0, end=1)
    full = graph("Div", graph("Add", n, [TILE_ROWS - 1]), [TILE_ROWS])
    tiles = graph("Max", full, one)
    height = graph("Div", graph("Sub", graph("Add", n, tiles), one), tiles)
    places = graph("Mul", tiles, height)
    added = graph("Concat", zero, zero, graph("Sub", places, n), zero, axis=0)
    padded = graph("Pad", rows, added)
    tiled = graph("Reshape", padded, graph("Concat", tiles, height, d, axis=0), allowzero=1)
    inner, tile, answers = Graph(onnx, outer=graph), graph.free("tile"), graph.free("tile_values")
    inner("Identity", _leaf_values(inner, flat, tile), output=answers)
    body = onnx.helper.make_graph(
        inner.nodes,
        "tile",
        [graph.info(tile, flat.dtype, ["height", flat.n_features])],
        [graph.info(answers, flat.dtype, ["height", flat.n_outputs])],
    )
    found = graph("Scan", tiled, body=body, num_scan_inputs=1)
    outputs = [flat.n_outputs]
    together = graph("Reshape", found, graph("Concat", places, outputs, axis=0), allowzero=1)
    return graph("Slice", together, zero, n, zero)


def _leaf_values(graph: Graph, flat: FlatPredictor, rows: str) -> str:
    """Return the values (n, outputs) of rows (n, d)."""
    u, dtype = flat.n_units, flat.dtype
    product = graph("MatMul", rows, flat.projection)
    z = graph("Sub", product, flat.offset)
    with_one = graph("Pad", z, [0, 0, 0, 1], dtype.type(1))
    points = graph("Concat", with_one, graph("Mul", z, z), axis=1)
    if flat.n_leaves == 1:  # one product for all rows
        leaf = None
    else:
        leaf = _leaf(graph, flat, with_one)
        points = graph("Unsqueeze", points, [1])  # (n, 1, 2r + 1): each row by its leaf

    def of_leaf(numbers: Array) -> str:
        if leaf is None:
            return numbers[0]
        return graph("Gather", numbers, leaf, axis=0)

    found = graph("MatMul", points, of_leaf(flat.forms))
    if u:
        axis, middle = [-1], [u]
        denominators = graph("Slice", found, [0], middle, axis)
        denominators = graph("Max", denominators, dtype.type(1))
        linear = graph("Slice", found, middle, [u + flat.n_outputs], axis)
        units = graph("MatMul", graph("Reciprocal", denominators), of_leaf(flat.weights))
        found = graph("Add", units, linear)
    return found if leaf is None else graph("Squeeze", found, [1])


def _leaf(graph: Graph, flat: FlatPredictor, points: str) -> str:
    """Return the leaf (n,) of points [z, 1]: evaluate all half-spaces, then take a step for each level."""
    sides = graph("MatMul", points, flat.planes.T)
    above = graph("Greater", sides, flat.dtype.type(0))
    # A step goes from node i to 2 i + 1, plus one if the row is on the positive side.
    steps = graph("Cast", above, to=graph.onnx.TensorProto.INT64)
    one = [[1]]
    node = graph("Slice", steps, [0], [1], [1])
    node = graph("Add", node, one)
    for _ in range(1, flat.levels):
        step = graph("GatherElements", steps, node, axis=1)
        node = graph("Add", graph("Add", graph("Add", node, node), step), one)
    leaf = graph("Sub", node, [[len(flat.planes)]])
    return graph("Squeeze", leaf, [1])


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
