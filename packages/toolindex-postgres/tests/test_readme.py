"""The README's example runs and prints the output shown."""

import os
import re
import subprocess
import sys
from pathlib import Path

from .test_faults import PATIENCE

README = Path(__file__).parents[1] / "README.md"


# The limits of these tests, instead of those that keep a user from waiting for a server.
PATIENT = """
from toolindex_postgres import _connections, _refresh
_connections._DEFAULTS["connect_timeout"] = 60
_connections.Connection.patience = _refresh._PATIENCE = 60
_connections._POLL_MS = _connections._READ_MS = 60_000
"""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)


def test_the_example_prints_the_output_that_is_shown(server, tmp_path):
    (code,), (output,) = blocks("python"), blocks("text")
    tool = tmp_path / "tools/mcptools/mail/send.py"
    tool.parent.mkdir(parents=True)
    tool.write_text('def run(to: str) -> str:\n    """Send a message."""\n')
    own = dict(pair.split("=") for pair in server.new_database().split())
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", PATIENT + code],
        env={
            **os.environ,
            "PGHOST": own["host"],
            "PGUSER": own["user"],
            "PGDATABASE": own["dbname"],
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ran.stdout, ran.stderr) == (output, "")
