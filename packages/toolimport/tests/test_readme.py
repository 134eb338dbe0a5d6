"""The README's example prints the documented output."""

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)


def test_the_example_prints_the_output_that_is_shown(tmp_path):
    (servers,), (server, code), (output,) = blocks("json"), blocks("python"), blocks("text")
    (tmp_path / "servers.json").write_text(servers)
    (tmp_path / "shop.py").write_text(server)
    here = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PATH": here},
    )
    assert (ran.stdout, ran.stderr) == (output, "")
