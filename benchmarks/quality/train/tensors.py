"""The safetensors format: length of a header, header in JSON, numbers."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Array", "read_tensors", "write_tensors"]

Array = np.ndarray[Any, Any]

_KINDS = {"F32": "<f4", "F16": "<f2", "I8": "|i1"}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def read_tensors(path: Path) -> dict[str, Array]:
    """Read all tensors of a file, as 32-bit floats where they are floats."""
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    found = {}
    for name, about in header.items():
        if about["dtype"] not in _KINDS:
            continue
        start, end = (8 + length + offset for offset in about["data_offsets"])
        values = np.frombuffer(data[start:end], _KINDS[about["dtype"]]).reshape(about["shape"])
        found[name] = values if values.dtype == np.int8 else values.astype("f4")
    return found


def write_tensors(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write tensors, the largest numbers first so that each is aligned."""
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0]))
    header: dict[str, object] = {}
    offset = 0
    for name, values in ordered:
        end = offset + values.nbytes
        kind = _NAMES[values.dtype.newbyteorder("<").str]
        header[name] = {"dtype": kind, "shape": values.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, values in ordered:
            file.write(np.ascontiguousarray(values).tobytes())
