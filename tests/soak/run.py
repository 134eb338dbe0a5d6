"""Perform random operations on one tree with several servers, and check what they find.

usage: python tests/soak/run.py [--seconds 10] [--seed N] [--damage]

First come the trials of limits.py: a full disk, a read-only one, no file events; then many files at
once, and kills during indexing.

Then two servers over stdio and one over HTTP follow one tree, with one index. Tools are written,
moved and deleted, categories regenerated, unusual queries searched, outcomes reported, servers
killed and hostile listings imported. At each quiet point, every server must find exactly what a
clean index of the files finds, every request must have been answered, no recorded outcome may be
lost, and no secret may have been written. With --damage, bytes of the index are overwritten too.
Prints its figures and its seed, which repeats the same operations; exits with 1 on a failure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from limits import Limits, NotPermittedError
from pytools_hybrid import Settings, ToolSearch
from servers import PATIENCE, HttpServer, StdioServer
from tools import Tree

COMMAND = shutil.which("pytools-hybrid", path=str(Path(sys.executable).parent)) or "pytools-hybrid"
COUNTED = [sys.executable, "-W", "error", str(Path(__file__).parents[1] / "counted.py")]
SMALL_SERVER = Path(__file__).parents[2] / "packages/toolimport/tests/small_server.py"
SECRET = "ghp_k3JdLs92kQpTz81LmA0"
QUERY = "tool"
ODD = (
    "", " ", "\0", "'; DROP TABLE entries; --", '"NEAR(" OR *', "a" * 9_000, "\U0001f600", "\ud83d",
    "ﷺ" * 1_000, "merge AND NOT pdf", "{}[]()^~:", "\u202edesrever", "mcptools:pdf:*",
)  # fmt: skip
CALLED = "mcptools:zoo:kept"


class Soak:
    """One run: its files, its servers, and its counts."""

    def __init__(self, folder: Path, seed: int, *, damages: bool) -> None:
        self._chance = random.Random(seed)
        self._tree = Tree(folder / "tools", self._chance)
        self._folder = folder
        self._index = folder / "index.db"
        kept = self._tree.root / "mcptools" / "zoo" / "kept.py"
        kept.parent.mkdir(parents=True, exist_ok=True)
        self._kept = kept
        self._command = [COMMAND]
        os.environ |= {
            "PYTOOLS_DIR": str(self._tree.root),
            "PYTOOLS_DB_PATH": str(self._index),
            "XDG_CACHE_HOME": str(folder / "cache"),
        }
        self._log = folder / "stderr.log"
        self._stdio = [StdioServer(self._command, self._log) for _ in range(2)]
        self._http = HttpServer(self._command, self._log)
        self._operations = [
            *[self._change] * 6, self._search, self._search, self._report, self._ask_http,
            self._kill, *([self._damage] if damages else []),
        ]  # fmt: skip
        self.counts: Counter[str] = Counter()
        self.recorded = 0

    def step(self) -> None:
        """Do one operation."""
        operation = self._chance.choice(self._operations)
        self.counts[operation.__name__.strip("_")] += 1
        operation()

    def check(self) -> None:
        """Wait until all servers find exactly the tools in the files.

        Raises:
            AssertionError: One of them does not.
        """
        self.counts["quiet points"] += 1
        expected = asyncio.run(self._clean())
        for server in self._stdio:
            until = time.monotonic() + PATIENCE
            while (found := server.found(QUERY, mode="bm25")) != expected:
                assert time.monotonic() < until, (
                    f"missing {expected.keys() - found.keys()}, "
                    f"left over {found.keys() - expected.keys()}"
                )
                time.sleep(0.05)

    def check_usage(self) -> None:
        """Check that every outcome that a server acknowledged is recorded.

        Raises:
            AssertionError: One is lost.
        """

        async def kept() -> int:
            settings = Settings.from_flags({"database": self._index, "embedding_model": "none"})
            async with ToolSearch(self._tree.root, settings, refresh=False) as search:
                return sum(tool.observations for tool in (await search.index.statistics()).tools)

        there = asyncio.run(kept())
        assert there >= self.recorded, f"{there} of {self.recorded} outcomes are recorded"

    def check_import(self) -> None:
        """Import hostile listings, and look for their secret in all files and output."""
        schema = {"type": "object", "properties": {"a": {"enum": list(range(5_000))}}}
        tools = [
            {"name": name, "description": f"Uses {SECRET}. {name}", "inputSchema": schema}
            for name in ("../../up", "half\ud83d", "__init__", '"""')
        ]
        plan = self._folder / "hostile.plan"
        plan.write_text(json.dumps({"tools": tools, "stderr": ["API_KEY"]}))
        entry = {
            "command": sys.executable,
            "args": ["-S", str(SMALL_SERVER), str(plan)],
            "env": {"API_KEY": SECRET},
        }
        file = self._folder / "servers.json"
        file.write_text(json.dumps({"mcpServers": {"hostile": entry}}))
        into = self._folder / "imported"
        made = subprocess.run(
            [*self._command, "import", str(file), "--root", str(into), "--database", f"{into}.db"],
            capture_output=True,
            text=True,
            check=False,
        )
        # It exits with 1 if tools were left out.
        assert made.returncode in (0, 1), made.stderr
        written = [it.read_text() for it in into.rglob("*") if it.is_file()]
        assert written, "nothing was imported"
        assert not any(SECRET in text for text in (*written, made.stdout, made.stderr))
        assert not (self._folder / "up.py").exists()

    def close(self) -> None:
        """End all servers."""
        for server in (*self._stdio, self._http):
            server.kill()

    def _change(self) -> None:
        self.counts[self._tree.change()] += 1

    def _search(self) -> None:
        mode = self._chance.choice(("hybrid", "bm25", "vector", "fuzzy"))
        answer = self._any().call("search_tools", query=self._chance.choice(ODD), mode=mode)
        assert ("result" in answer) != ("error" in answer)

    def _report(self) -> None:
        self._kept.parent.mkdir(parents=True, exist_ok=True)
        self._kept.write_text("def run() -> str:\n    '''Tool that is kept.'''\n")
        answer = self._any().call("report_outcome", tool_id=CALLED, success=True)["result"]
        self.recorded += answer.get("structuredContent", {}).get("recorded", False)

    def _ask_http(self) -> None:
        status = self._http.status_of(self._chance.choice(ODD))
        assert status in (200, 400, 422, 503), status

    def _kill(self) -> None:
        place = self._chance.randrange(len(self._stdio) + 1)
        if place == len(self._stdio):
            self._http.kill()
            self._http = HttpServer(self._command, self._log)
        else:
            self._stdio[place].kill()
            self._stdio[place] = StdioServer(self._command, self._log)

    def _damage(self) -> None:
        place, damage = self._chance.random(), self._chance.randbytes(64)
        # A server may just have set the index aside.
        with suppress(FileNotFoundError), self._index.open("r+b") as file:
            file.seek(int(place * os.fstat(file.fileno()).st_size))
            file.write(damage)

    def _any(self) -> StdioServer:
        return self._chance.choice(self._stdio)

    async def _clean(self) -> dict[str, str]:
        with tempfile.TemporaryDirectory() as folder:
            flags = {"database": Path(folder, "clean.db"), "embedding_model": "none"}
            settings = Settings.from_flags(flags)
            async with ToolSearch(self._tree.root, settings) as search:
                found = await search.search(QUERY, mode="bm25", limit=50)
                return {str(it.entry.id): it.entry.description for it in found}


def _try_limits(folder: Path, seed: int, *, files: int) -> None:
    os.environ["COUNTED_LOG"] = str(folder / "limits.jsonl")
    limits = Limits(folder, COUNTED, files=files, seed=seed)
    for trial in limits.trials:
        what = trial.__name__.replace("_", " ")
        try:
            trial()
        except NotPermittedError as error:
            what += f": skipped, {error}"
        print(what, flush=True)
    assert "Traceback" not in limits.said(), limits.said()


def main() -> None:
    """Soak for the requested time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--damage", action="store_true")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        _try_limits(Path(folder), arguments.seed, files=min(20_000, int(arguments.seconds * 30)))
        soak = Soak(Path(folder), arguments.seed, damages=arguments.damage)
        try:
            soak.check_import()
            until = time.monotonic() + arguments.seconds
            while soak.counts["quiet points"] == 0 or time.monotonic() < until:
                for _ in range(20):
                    soak.step()
                soak.check()
            soak.check_usage()
        finally:
            soak.close()
            print(", ".join(f"{count} {what}" for what, count in sorted(soak.counts.items())))
            print(f"{soak.recorded} outcomes recorded")


if __name__ == "__main__":
    main()
