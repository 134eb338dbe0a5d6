"""The transformer's layers as an ONNX graph, for onnxruntime if that is installed.

A graph is a protocol buffers message; this module writes the few kinds of fields that it needs.
onnxruntime has an operator for each step of a layer (its domain com.microsoft).
"""

from __future__ import annotations

import struct
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Array = np.ndarray[Any, Any]

_FLOAT, _INT32 = 1, 6
_VARINT, _BYTES, _FLOAT32 = 0, 2, 5
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT = 1, 2
_IR_VERSION, _OPSET = 8, 17
_OWN = "com.microsoft"


def layers_of(
    weights: Mapping[str, Array], *, heads: int, tiny: float
) -> Callable[[Array, Array], Array] | None:
    """Return a function from the first layer's states and the texts' lengths to the last states.

    Args:
        weights: The weights of the layers, as floats.
        heads: How many heads attention has.
        tiny: A small number that is added to a variance before taking its root.

    Returns:
        The function, or None if onnxruntime is not installed, or cannot run the graph.
    """
    try:
        runtime: Any = import_module("onnxruntime")
    except ImportError:
        return None
    options = runtime.SessionOptions()
    # Threads that wait for each other use up whole cores, as with OpenBLAS.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(
            _graph(weights, heads=heads, tiny=tiny),
            options,
            providers=["CPUExecutionProvider"],
        )
    except Exception:  # noqa: BLE001 - a release without these operators: numpy does it
        return None

    def run(states: Array, lengths: Array) -> Array:
        given = {"states": states, "lengths": lengths.astype(np.int32)}
        found: Array = session.run(["out"], given)[0]
        return found

    return run


def _graph(weights: Mapping[str, Array], *, heads: int, tiny: float) -> bytes:
    nodes: list[bytes] = []
    states, layers = "states", sum(name.endswith(".qkv.bias") for name in weights)
    for layer in range(layers):
        of = f"{layer}."
        between = [f"{layer}/{number}" for number in range(6)]
        seen, mixed, normed, wide, bent, narrow = between
        out = "out" if layer == layers - 1 else f"{layer}/out"
        norm1 = [of + name for name in ("norm1.weight", "norm1.bias", "out.bias")]
        norm2 = [of + name for name in ("norm2.weight", "norm2.bias", "narrow.bias")]
        attended = [states, of + "qkv.weight", of + "qkv.bias", "lengths"]
        nodes += [
            _node("Attention", attended, seen, num_heads=heads),
            _node("MatMul", [seen, of + "out.weight"], mixed),
            _node("SkipLayerNormalization", [mixed, states, *norm1], normed, epsilon=tiny),
            _node("MatMul", [normed, of + "wide.weight"], wide),
            _node("FastGelu", [wide, of + "wide.bias"], bent),
            _node("MatMul", [bent, of + "narrow.weight"], narrow),
            _node("SkipLayerNormalization", [narrow, normed, *norm2], out, epsilon=tiny),
        ]
        states = out
    width = weights["0.out.bias"].size
    graph = [
        *(_field(1, node) for node in nodes),
        _field(2, b"layers"),
        *(_field(5, _tensor(name, values)) for name, values in weights.items()),
        _field(11, _value("states", _FLOAT, ["texts", "pieces", width])),
        _field(11, _value("lengths", _INT32, ["texts"])),
        _field(12, _value("out", _FLOAT, ["texts", "pieces", width])),
    ]
    return b"".join(
        [
            _field(1, _IR_VERSION),
            _field(7, b"".join(graph)),
            _field(8, _field(1, b"") + _field(2, _OPSET)),
            _field(8, _field(1, _OWN.encode()) + _field(2, 1)),
        ]
    )


def _node(kind: str, inputs: Sequence[str], output: str, **attributes: float) -> bytes:
    return b"".join(
        [
            *(_field(1, name.encode()) for name in inputs),
            _field(2, output.encode()),
            _field(4, kind.encode()),
            *(_field(5, _attribute(name, value)) for name, value in attributes.items()),
            _field(7, b"" if kind == "MatMul" else _OWN.encode()),
        ]
    )


def _attribute(name: str, value: float) -> bytes:
    if isinstance(value, int):
        return _field(1, name.encode()) + _field(3, value) + _field(20, _ATTRIBUTE_INT)
    return _field(1, name.encode()) + _field(2, value) + _field(20, _ATTRIBUTE_FLOAT)


def _tensor(name: str, values: Array) -> bytes:
    return b"".join(
        [
            *(_field(1, length) for length in values.shape),
            _field(2, _FLOAT),
            _field(8, name.encode()),
            _field(9, np.ascontiguousarray(values, "<f4").tobytes()),
        ]
    )


def _value(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    lengths = (
        _field(2, length.encode()) if isinstance(length, str) else _field(1, length)
        for length in shape
    )
    tensor = _field(1, kind) + _field(2, b"".join(_field(1, each) for each in lengths))
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, value: bytes | float) -> bytes:
    """Return a field of a message: a string, a message, a number, by its type."""
    if isinstance(value, bytes):
        return _varint(number << 3 | _BYTES) + _varint(len(value)) + value
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    return _varint(number << 3 | _FLOAT32) + struct.pack("<f", value)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
