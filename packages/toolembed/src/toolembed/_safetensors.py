"""The safetensors format: the length of a header, the header in JSON, and the tensors."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import mmap


class Tensor(NamedTuple):
    """The position of a tensor in a file, in bytes, and its type and shape."""

    kind: str
    shape: list[int]
    start: int
    end: int


def read_header(data: mmap.mmap | bytes) -> dict[str, Tensor]:
    """Return the tensors of a file by name, without checking the file's length.

    Raises:
        ValueError: The file has another format.
    """
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        header.pop("__metadata__", None)
        return {
            name: Tensor(
                about["dtype"],
                about["shape"],
                *(8 + length + offset for offset in about["data_offsets"]),
            )
            for name, about in header.items()
        }
    except (AttributeError, KeyError, TypeError, struct.error) as error:
        raise ValueError(f"it is not in the format safetensors: {error!r}") from error
