"""Logging to stderr: lines for people, or one JSON object per line for programs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import threading
    from collections.abc import Collection

__all__ = ["are_json", "configure_logging", "use_format", "write_json"]

_format: Literal["text", "json"] = "text"
_secrets: tuple[str, ...] = ()


def are_json() -> bool:
    """Return whether stderr gets JSON."""
    return _format == "json"


def use_format(name: Literal["text", "json"]) -> None:
    """Write messages to stderr as plain text from now on, or as JSON."""
    global _format
    _format = name


def configure_logging(level: str, *, secrets: Collection[str] = ()) -> None:
    """Log records of a level or above to stderr, in its current format.

    `secrets` are hidden in JSON, like the values of variables named like a key.
    """
    global _secrets
    # Imported here, because help needs no log.
    import logging

    if not are_json():
        logging.basicConfig(level=level, format="%(levelname)s: %(message)s")
        return

    class JsonFormatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            error = record.exc_info[1] if record.exc_info else None
            message, at = record.getMessage(), record.created
            return _line(record.levelname, record.name, message, error=error, at=at)

    import threading

    _secrets = tuple(secrets)
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler])
    logging.captureWarnings(capture=True)
    threading.excepthook = _log_of_thread
    sys.unraisablehook = _log_unraisable


def write_json(level: str, message: str, error: BaseException | None = None) -> None:
    """Write a line, whatever the level of the log."""
    # In one write, so that lines stay whole.
    sys.stderr.write(_line(level, "pytools_hybrid", message, error=error) + "\n")
    sys.stderr.flush()


def _line(
    level: str,
    logger: str,
    message: str,
    *,
    error: BaseException | None = None,
    at: float | None = None,
) -> str:
    import json
    from datetime import UTC, datetime

    from pytools_hybrid.telemetry import trace_ids

    when = datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)
    line = {
        "time": when.isoformat(timespec="milliseconds"),
        "level": level,
        "logger": logger,
        "message": _redacted(message),
        **trace_ids(),
    }
    if error is not None:
        from traceback import format_exception

        line["traceback"] = _redacted("".join(format_exception(error))).rstrip()
    # In ASCII, so that it is valid in any encoding.
    return json.dumps(line)


def _redacted(text: str) -> str:
    from toolembed.providers import redact_keys

    text = redact_keys(text)
    for secret in _secrets:
        text = text.replace(secret, "[secret]")
    # Other programs refuse lone surrogates in JSON.
    return text.encode("utf-8", "backslashreplace").decode()


def _log_of_thread(ended: threading.ExceptHookArgs) -> None:
    if not isinstance(ended.exc_value, SystemExit):
        write_json("ERROR", "a thread ended", ended.exc_value)


def _log_unraisable(found: sys.UnraisableHookArgs) -> None:
    about = f"{found.err_msg or 'Exception ignored in'}: {found.object!r}"
    write_json("ERROR", about, found.exc_value)
