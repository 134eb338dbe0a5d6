"""A package index on this machine, for trying a release.

python -m release.index FOLDER      serves a folder of distributions, and takes uploads, until the
                                    program that started it closes its standard input
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socketserver import ThreadingMixIn
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pypiserver  # type: ignore[import-untyped]

from release.processes import run, say


class _Server(ThreadingMixIn, WSGIServer):
    """Answers uv, which asks for several files at once."""

    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its base's name
        """Keep a line for each request off the terminal."""


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Give the address of an index of a folder, on a free port and for this machine only."""
    folder.mkdir(parents=True, exist_ok=True)
    app = pypiserver.app(
        roots=[folder.resolve()],
        backend_arg="simple-dir",
        password_file=".",
        authenticate=[],
        disable_fallback=True,
    )
    with make_server("127.0.0.1", 0, app, _Server, _Quiet) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def upload(files: Sequence[Path], address: str) -> None:
    """Put distributions into an index of this machine, which asks for no password."""
    run(
        "uv", "publish", f"--publish-url={address}/", "--trusted-publishing=never",
        "--username=anybody", "--password=none", *files, cwd=files[0].parent,
    )  # fmt: skip


def main() -> int:
    """Serve until nobody listens any more."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("folder", type=Path)
    with serving(options.parse_args().folder) as address:
        say(address)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main())
