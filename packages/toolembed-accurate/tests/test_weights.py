"""The package is one file of weights."""

import json
import struct

from toolembed_accurate import WEIGHTS


def test_the_weights_are_a_whole_safetensors_file_of_at_most_30_mb():
    data = WEIGHTS.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])

    ends = [about["data_offsets"][1] for name, about in header.items() if name != "__metadata__"]
    assert len(data) == 8 + length + max(ends) < 30_000_000
