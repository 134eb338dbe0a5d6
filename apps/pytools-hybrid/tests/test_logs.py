"""Logs for programs: one JSON object per line from every source, without secrets."""

import json
import logging
import sys
import threading
import warnings
from contextlib import contextmanager
from io import StringIO

import pytest
from pytools_hybrid import logs
from pytools_hybrid.logs import configure_logging, use_format, write_json

from .conftest import PATIENCE


@contextmanager
def written():
    """Log as JSON in the block, with secrets; the lines are in the list when it ends."""
    lines, stream, root = [], StringIO(), logging.getLogger()
    with warnings.catch_warnings(action="default"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", stream)
        patch.setattr(sys, "unraisablehook", sys.unraisablehook)
        patch.setattr(threading, "excepthook", threading.excepthook)
        patch.setattr(root, "handlers", [])
        patch.setattr(root, "level", root.level)
        patch.setattr(logs, "_format", "text")
        patch.setattr(logs, "_secrets", ())
        patch.setenv("SOME_API_KEY", "sk-0123456789")
        use_format("json")
        configure_logging("INFO", secrets=["geheim"])
        try:
            yield lines
        finally:
            logging.captureWarnings(capture=False)
    lines += map(json.loads, stream.getvalue().splitlines())


def test_a_line_shows_its_time_level_logger_and_message():
    with written() as lines:
        logging.getLogger("uvicorn.error").warning("%s\nis", "this")
        logging.getLogger("other").debug("not told")

    (line,) = lines
    assert line.pop("time")[-6:] == "+00:00"
    assert line == {"level": "WARNING", "logger": "uvicorn.error", "message": "this\nis"}


def test_tracebacks_are_a_field_including_those_of_threads():
    def fail():
        raise ValueError("no such thing")

    with written() as lines:
        try:
            fail()
        except ValueError:
            logging.getLogger("here").exception("it failed")
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join(PATIENCE)

    logged, of_thread = lines
    assert (logged["message"], of_thread["message"]) == ("it failed", "a thread ended")
    for line in (logged, of_thread):
        assert line["traceback"].startswith("Traceback (most recent call last):\n")
        assert line["traceback"].endswith("ValueError: no such thing")


def test_messages_of_commands_and_library_warnings_are_lines_too():
    with written() as lines:
        write_json("INFO", "half \ud83d")
        warnings.warn("it is old", DeprecationWarning, stacklevel=1)

    said, warned = lines
    assert (said["logger"], said["level"]) == ("pytools_hybrid", "INFO")
    assert said["message"] == "half \\ud83d"
    assert (warned["logger"], warned["level"]) == ("py.warnings", "WARNING")
    assert "it is old" in warned["message"]


def test_no_line_contains_a_secret():
    with written() as lines:
        write_json("INFO", "geheim")
        try:
            raise ValueError("geheim", "sk-0123456789", "postgresql://me:word@host/db")
        except ValueError as error:
            logging.getLogger("here").warning("of %s", error, exc_info=error)

    told = json.dumps(lines)
    assert "[secret]" in told
    assert not any(it in told for it in ("geheim", "sk-0123456789", "word"))
