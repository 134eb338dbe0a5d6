"""Logging to stderr: lines for people, or one JSON object per line for programs."""

from __future__ import annotations

import io
import json
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, TextIO

if TYPE_CHECKING:
    import logging
    from collections.abc import Collection

__all__ = ["are_json", "configure_logging", "use_format", "write_json"]


def are_json() -> bool:
    """Return whether stderr gets JSON."""
    return isinstance(sys.stderr, _JsonLines)


def use_format(name: Literal["text", "json"]) -> None:
    """Write plain text to stderr from now on, or turn everything written there into JSON."""
    if isinstance(sys.stderr, _JsonLines):
        if name == "text":
            sys.stderr = sys.stderr.stream
    elif name == "json":
        sys.stderr = _JsonLines(sys.stderr)


def configure_logging(level: str, *, secrets: Collection[str] = ()) -> None:
    """Log records of a level or above to stderr, in its current format.

    `secrets` are hidden in JSON, like the values of variables named like a key.
    """
    # Imported here, because help needs no log.
    import logging

    lines = sys.stderr
    if not isinstance(lines, _JsonLines):
        logging.basicConfig(level=level, format="%(levelname)s: %(message)s")
        return
    stderr: _JsonLines = lines

    class Handler(logging.Handler):
        """Writes records as JSON objects."""

        def emit(self, record: logging.LogRecord) -> None:
            """Write a record."""
            try:
                error = record.exc_info[1] if record.exc_info else None
                message, at = record.getMessage(), record.created
                stderr.put(record.levelname, record.name, message, error=error, at=at)
            except Exception:  # noqa: BLE001 - a log must not end what is logged
                self.handleError(record)

    stderr.secrets = tuple(secrets)
    logging.basicConfig(level=level, handlers=[Handler()])
    logging.captureWarnings(capture=True)
    threading.excepthook = _log_of_thread
    sys.unraisablehook = _log_unraisable


def write_json(level: str, message: str, error: BaseException | None = None) -> None:
    """Write a line, whatever the level of the log."""
    if isinstance(sys.stderr, _JsonLines):
        sys.stderr.put(level, "pytools_hybrid", message, error=error)


class _JsonLines(io.TextIOBase):
    """A stderr on which every line is an object, even if other code writes it.

    Attributes:
        secrets: Texts to hide in all lines.
    """

    def __init__(self, stream: TextIO) -> None:
        self.secrets: tuple[str, ...] = ()
        self.stream: TextIO = stream
        self._begun = ""
        self._lock = threading.RLock()

    @property
    def encoding(self) -> str:  # type: ignore[override]  # pyright: ignore[reportIncompatibleVariableOverride]
        """The encoding of the real stderr."""
        return self.stream.encoding

    def writable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Return the descriptor, for child processes."""
        return self.stream.fileno()

    def write(self, text: str) -> int:
        """Write text that does not come from the log, as complete lines."""
        with self._lock:
            *whole, self._begun = (self._begun + text).split("\n")
            for line in whole:
                if line.strip():
                    self.put("INFO", "stderr", line.rstrip())
        return len(text)

    def flush(self) -> None:
        """Write an unfinished line, such as a question."""
        with self._lock:
            if self._begun:
                self.write("\n")

    def put(
        self,
        level: str,
        logger: str,
        message: str,
        *,
        error: BaseException | None = None,
        at: float | None = None,
    ) -> None:
        """Write an object."""
        from pytools_hybrid.telemetry import trace_ids

        when = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
        line = {
            "time": when.isoformat(timespec="milliseconds"),
            "level": level,
            "logger": logger,
            "message": self._hidden(message),
            **trace_ids(),
        }
        if error is not None:
            from traceback import format_exception

            line["traceback"] = self._hidden("".join(format_exception(error))).rstrip()
        with self._lock:
            # In ASCII, so that it is valid in any encoding, and in one write, so that lines stay
            # whole.
            self.stream.write(json.dumps(line) + "\n")
            self.stream.flush()

    def _hidden(self, text: str) -> str:
        from toolembed.providers import redact_keys

        text = redact_keys(text)
        for secret in self.secrets:
            text = text.replace(secret, "[secret]")
        # Other programs refuse lone surrogates in JSON.
        return text.encode("utf-8", "backslashreplace").decode()


def _log_of_thread(ended: threading.ExceptHookArgs) -> None:
    if not isinstance(ended.exc_value, SystemExit):
        write_json("ERROR", "a thread ended", ended.exc_value)


def _log_unraisable(found: sys.UnraisableHookArgs) -> None:
    write_json(
        "ERROR", f"{found.err_msg or 'Exception ignored in'}: {found.object!r}", found.exc_value
    )
