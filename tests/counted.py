"""The installed command with a model that logs its requests, and that can be made to fail.

    python counted.py COMMAND [ARGUMENT ...]

`COUNTED_LOG` is the log. It gets a line at the start, and one for each request before it is
answered, with the process's `COUNTED_NAME`. `COUNTED_MODEL` is the model's name,
`COUNTED_DIMENSIONS` the length of its vectors, `COUNTED_SECONDS` how long a request takes. While
the file `COUNTED_FAULT` exists, its content names the failure; with "hang at 5", requests with
tools hang from the fifth one of all processes on. `COUNTED_CLOCK` is the error of this process's
clock in seconds. With `COUNTED_PATIENT`, a server that ends waits until its records are written,
however slow the machine is.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import patience
from toolembed import EmbeddingError, EmbeddingLimits, FailureKind

_POLL_SECONDS = 0.01


class CountedEmbedder:
    """An embedder of bags of words; each model maps words to different dimensions."""

    def __init__(self) -> None:
        self.model_id = f"counted:{os.environ.get('COUNTED_MODEL', 'words')}"
        self.dimensions = int(os.environ.get("COUNTED_DIMENSIONS", "256"))
        self.limits = EmbeddingLimits(texts_per_request=64)
        self._seconds = float(os.environ.get("COUNTED_SECONDS", "0"))
        self._fault = Path(os.environ.get("COUNTED_FAULT", os.devnull))
        self.write_down("start", [])

    def write_down(self, kind: str, texts: Sequence[str]) -> None:
        """Add a line to the log."""
        hashes = [hashlib.sha256(text.encode()).hexdigest()[:16] for text in texts]
        line = {
            "pid": os.getpid(),
            "name": os.environ.get("COUNTED_NAME"),
            "model": self.model_id,
            "kind": kind,
            "texts": hashes,
        }
        log = os.open(os.environ["COUNTED_LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            # Begin with a line break, because a kill may have truncated the last line.
            os.write(log, f"\n{json.dumps(line)}\n".encode())
        finally:
            os.close(log)

    async def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        return await self._embed("document", texts)

    async def embed_query(self, text: str) -> list[float]:
        return (await self._embed("query", [text]))[0]

    async def _embed(self, kind: str, texts: Sequence[str]) -> list[list[float]]:
        self.write_down(kind, texts)
        await asyncio.sleep(self._seconds)
        while (fault := self._named_fault()) is not None:
            match fault:
                case "down":
                    raise EmbeddingError(self.model_id, "no route to host")
                case "no key":
                    raise EmbeddingError(
                        self.model_id, "set COUNTED_KEY", kind=FailureKind.UNAVAILABLE
                    )
                case str() if match := re.fullmatch(r"hang at (\d+)", fault):
                    if kind != "document" or self._documents() < int(match[1]):
                        break
            # It hangs, or the file is being written.
            await asyncio.sleep(_POLL_SECONDS)
        return [self._vector(text) for text in texts]

    def _documents(self) -> int:
        log = Path(os.environ["COUNTED_LOG"]).read_text(encoding="utf-8")
        return log.count('"kind": "document"')

    def _named_fault(self) -> str | None:
        try:
            return self._fault.read_text(encoding="utf-8") if self._fault.is_file() else None
        except FileNotFoundError:
            # It was removed in the meantime.
            return None

    def _vector(self, text: str) -> list[float]:
        vector = [0.001] * self.dimensions
        for word in re.findall("[a-z]+", text.lower()):
            digest = hashlib.sha256(f"{self.model_id} {word}".encode()).digest()
            vector[int.from_bytes(digest[:4], "big") % self.dimensions] += 1.0
        return vector


def main() -> None:
    """Run the command."""
    from pytools_hybrid import cli, search

    if clock := float(os.environ.get("COUNTED_CLOCK", "0")):
        right, right_ns = time.time, time.time_ns
        time.time = lambda: right() + clock
        time.time_ns = lambda: right_ns() + int(clock * 1e9)

    if os.environ.get("COUNTED_PATIENT"):
        patience.wait_at_the_end()

    make = search.ToolSearch.__init__

    def make_counted(self: search.ToolSearch, *arguments: Any, **keywords: Any) -> None:
        make(self, *arguments, embedder=CountedEmbedder(), **keywords)

    # Use the counted model, whatever the settings say.
    search.ToolSearch.__init__ = make_counted
    cli.main()


if __name__ == "__main__":
    main()
