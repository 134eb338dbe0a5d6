"""Generating models in a separate process, so that no schema exceeds its server's time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from toolimport._generate._models import Models, models_of

if TYPE_CHECKING:
    from toolimport._generate._modules import Tool

_PROGRAM = "from toolimport._generate._worker import main; main()"
# An endless schema takes at most half of the time, and leaves the rest to its server's other tools.
_SHARE = 0.5
_LOAD_SECONDS = 60.0
_ADVICE = "run the import again with a longer time limit"
_READY = b"ready\n"


class ModelWorker:
    """Generates tools' models, one after the other, and gives up on those that take too long.

    The process is started when first needed, or earlier by `start`, and again after it has ended.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._is_closed = self._is_ready = False
        self._loading_left = _LOAD_SECONDS
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process, so that it loads the generator while servers are starting."""
        with self._lock:
            if self._process is None and not self._is_closed:
                self._process = subprocess.Popen(  # noqa: S603 - nothing of a server's
                    # -P: do not import from the current folder, which may contain anything.
                    [sys.executable, "-P", "-c", _PROGRAM],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )

    def load(self) -> None:
        """Wait until the process has loaded the generator, for up to a minute per import.

        This does not count against any server's time, because all servers need it.
        """
        began = time.monotonic()
        try:
            self._ready(self._loading_left)
        finally:
            self._loading_left -= time.monotonic() - began
        if not self._is_ready and not self._is_closed:
            raise ValueError(
                f"the generator was not loaded within {_LOAD_SECONDS:g} s; run the import again "
                "when the machine is less busy"
            )

    def models(self, tool: Tool, until: float) -> Models:
        """Generate a tool's models; raise `ValueError` if that fails by a monotonic time."""
        # Loading again after a schema that was too slow counts as this server's time.
        self._ready(until - time.monotonic())
        if self._is_closed:
            raise ValueError("the import was stopped")
        if (process := self._process) is None or time.monotonic() >= until:
            raise ValueError(f"its models were not generated within its server's time; {_ADVICE}")
        asked = {"input_schema": tool.input_schema, "output_schema": tool.output_schema}
        seconds = max(until - time.monotonic(), 0.0) * _SHARE
        began = time.monotonic()
        answer = _answer(process, json.dumps(asked).encode() + b"\n", seconds)
        if answer.endswith(b"\n"):
            made: dict[str, Any] = json.loads(answer)
            made["notes"] = tuple(made["notes"])
            return Models(**made)
        self._end()
        if time.monotonic() - began < seconds:
            raise ValueError("its schema crashed the generator")
        raise ValueError(f"its models were not generated within {seconds:.1f} s; {_ADVICE}")

    def close(self) -> None:
        """Kill the process."""
        with self._lock:
            self._is_closed = True
        self._end()

    def _ready(self, seconds: float) -> None:
        if self._is_ready or seconds <= 0:
            return
        self.start()
        if (process := self._process) is not None:
            self._is_ready = _answer(process, b"", seconds) == _READY
            if not self._is_ready:
                self._end()

    def _end(self) -> None:
        with self._lock:
            process, self._process, self._is_ready = self._process, None, False
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    # Closing flushes to a process that has ended and no longer reads.
                    with suppress(OSError):
                        pipe.close()


def _answer(process: subprocess.Popen[bytes], asked: bytes, seconds: float) -> bytes:
    """Return the process's answer, a line; the process is killed when its time is up."""
    if process.stdin is None or process.stdout is None:
        return b""
    timer = threading.Timer(max(seconds, 0.0), process.kill)
    timer.start()
    try:
        process.stdin.write(asked)
        process.stdin.flush()
        return process.stdout.readline()
    except (OSError, ValueError):  # the process has ended, or was closed
        return b""
    finally:
        timer.cancel()


def main() -> None:
    """Read the schemas of a tool from each line of stdin, and write its models as a line."""
    # Ctrl-C ends the import, which ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb")
    # Output of the generator must not look like an answer.
    os.dup2(2, 1)
    import datamodel_code_generator.format
    import datamodel_code_generator.parser.jsonschema  # noqa: F401

    answers.write(_READY)
    answers.flush()
    for line in sys.stdin.buffer:
        models = models_of(**json.loads(line))
        answers.write(json.dumps(asdict(models)).encode() + b"\n")
        answers.flush()
