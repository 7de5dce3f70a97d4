"""Builder of ONNX graphs; it is given the package onnx, which ``onnx.py`` imports."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from gramian._typing import Array


class Graph:
    """Builder of a graph; calling it adds a node and returns the name of the node's output.

    An input is the name of an output, or numbers, which become a constant.

    taken : names that nodes and constants must not have.
    outer : the graph around this one, which keeps the constants of both, since a body may read them.
    """

    def __init__(self, onnx: ModuleType, taken: Iterable[str] = (), outer: Graph | None = None) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self._outer = outer
        self.taken: set[str] = set(taken) if outer is None else outer.taken
        self.initializers: list[Any] = [] if outer is None else outer.initializers
        self.names: dict[Any, str] = {} if outer is None else outer.names

    def __call__(self, kind: str, *inputs: ArrayLike, output: str | None = None, **attributes: object) -> str:
        names = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        prefix = "" if self._outer is None else "tile_"
        name = output or self.free(f"{prefix}{kind.lower()}_{len(self.nodes)}")
        self.nodes.append(self.onnx.helper.make_node(kind, names, [name], **attributes))
        return name

    def free(self, name: str) -> str:
        """Return a name, with underscores behind it if it is taken."""
        while name in self.taken:
            name += "_"
        return name

    def cast(self, name: str, dtype: DTypeLike) -> str:
        """Add a conversion to a type of NumPy."""
        return self("Cast", name, to=self.onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def constant(self, values: ArrayLike) -> str:
        """Add a constant and return its name; equal small constants are stored once."""
        array: Array = np.asarray(values)
        content = tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes()
        key = content, array.dtype.str, array.shape
        if key not in self.names:
            self.names[key] = self.free(f"constant_{len(self.initializers)}")
            made = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape))
            made.name = self.names[key]
            self.initializers.append(made)
        return self.names[key]

    def info(self, name: str, dtype: DTypeLike, shape: list[str | int]) -> Any:
        """Return the description of an input or output; ``str`` is the type of text."""
        helper, text = self.onnx.helper, self.onnx.TensorProto.STRING
        kind = text if dtype is str else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        return helper.make_tensor_value_info(name, kind, shape)
