"""The package as its users see it: one file of weights, and where it is."""

import json
import re
import struct
import subprocess
import sys
from pathlib import Path

from toolembed_accurate import WEIGHTS

README = Path(__file__).parents[1] / "README.md"


def test_the_weights_are_a_whole_safetensors_file_of_at_most_30_mb():
    data = WEIGHTS.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])

    ends = [about["data_offsets"][1] for name, about in header.items() if name != "__metadata__"]
    assert len(data) == 8 + length + max(ends) < 30_000_000


def test_the_readmes_example_prints_the_output_that_is_shown():
    text = README.read_text("utf-8")
    code, output = (
        re.search(rf"^```{language}\n(.*?)^```$", text, re.M | re.S)[1]
        for language in ("python", "text")
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )

    assert ran.stdout == output
