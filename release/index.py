"""Package indexes: one on this machine for trying a release, and what any of them holds.

python -m release.index FOLDER      serves a folder of distributions, and takes uploads, until the
                                    program that started it closes its standard input
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from socketserver import ThreadingMixIn
from threading import Thread
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pypiserver  # type: ignore[import-untyped]
from packaging.requirements import Requirement

from release.processes import ReleaseError, run, say


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


def missing(requirement: str, addresses: Sequence[str]) -> str | None:
    """Tell why none of the indexes has what is required; None if one has it.

    The default index is asked last, which is PyPI unless the environment says otherwise.
    """
    name = Requirement(requirement).name
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.in")
        wanted.write_text(requirement, "utf-8")
        try:
            run(
                "uv", "pip", "compile", "--quiet", "--no-deps", f"--refresh-package={name}",
                "--index-strategy=unsafe-best-match", *(f"--index={it}" for it in addresses),
                wanted, cwd=Path(folder),
            )  # fmt: skip
        except ReleaseError as error:
            return str(error).partition("\n")[2]
    return None


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
