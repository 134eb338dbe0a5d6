"""Trials of a server without disk space, write access, file events, or time to finish."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from servers import StdioServer, wait_until
from tools import write_many

# The number of texts per request to the model. A kill may cost two requests.
BATCH = 64
KILLS = 4
QUERY = "penguin"


class NotPermittedError(Exception):
    """The user has no permission to set up a trial."""


class Limits:
    """Trials, each a method with a separate folder, which raises `AssertionError`.

    Attributes:
        trials: All trials, in order.
    """

    def __init__(self, folder: Path, command: list[str], *, files: int, seed: int) -> None:
        self._folder = folder
        self._command = command
        self._files = files
        self._chance = random.Random(seed)
        self._root = write_many(folder / "limited", 20)
        self._log = folder / "limits.log"
        self.trials: list[Callable[[], None]] = [
            self.full_disk, self.small_disk, self.read_only, self.no_news_of_files,
            self.many_files_at_once, self.kills_while_an_index_is_made,
        ]  # fmt: skip

    def full_disk(self) -> None:
        """Answer from the existing index while the disk is full, and catch up afterwards."""
        root = write_many(self._folder / "growing", 20)
        with self._mounted("-t", "tmpfs", "-o", "size=32m", "tmpfs") as disk:
            server = self._server(root, disk / "index.db")
            try:
                wait_until(lambda: server.has_all(20), "20 tools are indexed")
                with (disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
                    while filler.write(b"x" * 65_536):
                        pass
                write_many(root, 100, category="long", words="word " * 100)

                wait_until(lambda: server.says("disk is full"), "a note that the disk is full")
                assert len(server.found(QUERY)) == 20

                (disk / "filler").unlink()
                write_many(root, 5, category="zoo")
                wait_until(
                    lambda: server.has_all(125),
                    "all tools are indexed",
                )
            finally:
                server.kill()

    def small_disk(self) -> None:
        """Refuse to index on a disk that is too small for an index."""
        with self._mounted("-t", "tmpfs", "-o", "size=192k", "tmpfs") as disk:
            refused = self._run("index", disk / "index.db")
        assert refused.returncode == 1, refused
        assert "the disk is full" in refused.stderr, refused.stderr

    def read_only(self) -> None:
        """Search an index that cannot be written, and say that it may be out of date."""
        kept = self._folder / "kept"
        assert self._run("index", kept / "index.db").returncode == 0
        with self._mounted("--bind", str(kept)) as place:
            subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)
            write_many(self._root, 5, category="zoo")
            searched = self._run("search", place / "index.db", QUERY)
            refused = self._run("index", place / "index.db")
            server = self._server(self._root, place / "index.db")
            try:
                assert len(server.found(QUERY)) == 20
                wait_until(lambda: server.says("cannot be written"), "a note on the read-only disk")
            finally:
                server.kill()
        assert searched.returncode == 0, searched.stderr
        assert "mcptools:" in searched.stdout
        assert "cannot be written" in searched.stderr
        assert refused.returncode == 1, refused
        assert "read" in refused.stderr, refused.stderr

    def no_news_of_files(self) -> None:
        """Find changes on a system that has no more file watches."""
        limit = "echo 0 > /proc/sys/user/max_inotify_instances"
        alone = ["unshare", "--user", "--map-root-user", "sh", "-c", f'{limit} && exec "$@"', "sh"]
        if (
            shutil.which("unshare") is None
            or subprocess.run([*alone, "true"], check=False).returncode
        ):
            raise NotPermittedError("no user namespace with a separate limit of inotify")
        root = write_many(self._folder / "silent", 20)
        server = self._server(root, self._folder / "silent.db", before=alone)
        try:
            wait_until(lambda: server.has_all(20), "20 tools are indexed")
            write_many(root, 5, category="zoo")
            wait_until(lambda: server.has_all(25), "new files are found without events")
        finally:
            server.kill()

    def many_files_at_once(self) -> None:
        """Find all tools of a tree that is moved into place, as a checkout does."""
        root = write_many(self._folder / "checkout", 20)
        made = write_many(self._folder / "elsewhere", self._files)
        server = self._server(root, self._folder / "many.db")
        try:
            wait_until(lambda: server.has_all(20), "20 tools are indexed")
            shutil.rmtree(root / "mcptools")
            (made / "mcptools").rename(root / "mcptools")
            wait_until(lambda: server.has_all(self._files), "the whole checkout is indexed")
        finally:
            server.kill()

    def kills_while_an_index_is_made(self) -> None:
        """Continue after kills, and repeat at most two batches of embedding per kill."""
        root = write_many(self._folder / "killed", 1_000)
        database = self._folder / "killed" / "index.db"
        log = self._folder / "requests.jsonl"
        variables = {"COUNTED_SECONDS": "0.03", "COUNTED_LOG": str(log)}
        for _ in range(KILLS):
            servers = [self._server(root, database, **variables) for _ in range(2)]
            time.sleep(self._chance.uniform(0, 0.5))
            for server in servers:
                server.kill()
        servers = [self._server(root, database, **variables) for _ in range(2)]
        try:
            for server in servers:
                wait_until(lambda server=server: server.has_all(1_000), "1,000 tools are indexed")
        finally:
            for server in servers:
                server.kill()
        times = Counter(_embedded(log))
        assert len(times) == 1_000, len(times)
        again = times.total() - 1_000
        assert again <= 2 * BATCH * KILLS, f"{again} texts were embedded again"
        checked = self._run("index", database, "--check", root=root)
        assert checked.returncode == 0, checked.stderr

    def said(self) -> str:
        """Return everything that the servers wrote to stderr."""
        return self._log.read_text("utf-8", "replace") if self._log.exists() else ""

    def _server(
        self, root: Path, database: Path, *, before: Sequence[str] = (), **variables: str
    ) -> StdioServer:
        places = {"PYTOOLS_DIR": str(root), "PYTOOLS_DB_PATH": str(database)}
        return StdioServer([*before, *self._command], self._log, **places, **variables)

    def _run(
        self, verb: str, database: Path, *arguments: str, root: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = [*self._command, verb, *arguments]
        return subprocess.run(
            [*command, "--root", str(root or self._root), "--database", str(database)],
            capture_output=True,
            text=True,
            check=False,
        )

    @contextmanager
    def _mounted(self, *arguments: str) -> Iterator[Path]:
        target = self._folder / "mounted"
        target.mkdir(exist_ok=True)
        try:
            subprocess.run(["mount", *arguments, str(target)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            raise NotPermittedError("this user may not mount file systems") from None
        try:
            yield target
        finally:
            subprocess.run(["umount", "--lazy", str(target)], check=True)


def _embedded(log: Path) -> list[str]:
    texts: list[str] = []
    for line in log.read_text("utf-8").splitlines() if log.exists() else []:
        # A kill may have truncated a line; that request was never answered.
        with suppress(json.JSONDecodeError):
            made = json.loads(line)
            texts += made["texts"] if made["kind"] == "document" else []
    return texts
