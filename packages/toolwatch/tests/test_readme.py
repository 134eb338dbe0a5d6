"""The README's example runs and prints the output shown there."""

import re
import subprocess
import sys
from pathlib import Path

from .conftest import PATIENCE

README = Path(__file__).parents[1] / "README.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)


def test_the_example_prints_the_output_that_is_shown():
    (code,), (output,) = blocks("python"), blocks("text")
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == (output, "")
