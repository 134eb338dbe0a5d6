"""The command line. Each command imports what it needs when it runs, so that help is instant."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pytools_hybrid.cli import app
from pytools_hybrid.errors import PytoolsError, SettingsError, refusal
from pytools_hybrid.exit import end
from pytools_hybrid.logs import are_json, use_format, write_json
from pytools_hybrid.terminal import fail, say

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error that a user can fix is reported without a traceback."""
    # The parent process may have closed stdout or stderr; writing to them must not fail.
    sys.stdout = sys.stdout or Path(os.devnull).open("w")  # noqa: SIM115
    sys.stderr = sys.stderr or Path(os.devnull).open("w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        # A character that the terminal cannot encode must not end the program.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if os.environ.get("PYTOOLS_LOG_FORMAT") == "json":
        # Set before the settings are read, so that errors in them are JSON lines too.
        use_format("json")
    try:
        # Errors of the command line are reported below, in the format of the log.
        given = app.current_names(list(sys.argv[1:] if arguments is None else arguments))
        sys.exit(app.top(args=given, standalone_mode=False) or 0)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(128 + signal.SIGINT)
    except typer.Abort:
        say("Aborted!")
        sys.exit(1)
    except Exception as error:
        if (status := getattr(error, "exit_code", None)) is not None:
            _report_usage(error)
            sys.exit(status)
        from toolembed import EmbeddingError
        from toolimport import ToolImportError
        from toolindex import ToolIndexError
        from toolrank import ToolRankError

        ours = PytoolsError | EmbeddingError | ToolImportError | ToolIndexError | ToolRankError
        if not isinstance(error, ours | OSError):
            if not are_json():
                raise
            write_json("CRITICAL", f"{type(error).__name__}: {error}", error)
            sys.exit(1)
        if isinstance(error, FileNotFoundError) and not _has_folder():
            say("the current folder no longer exists; change to another one")
        if isinstance(error, OSError) and error.filename:
            error = PytoolsError(f"{error.filename}: {refusal(error)}")
        fail(error, status=2 if isinstance(error, SettingsError) else 1)
    finally:
        end()


def _report_usage(error: Exception) -> None:
    """Report wrong arguments: an error of typer's copy of click, which has no public name."""
    told: Any = error
    if hasattr(error, "possibilities"):
        # There is no such option.
        from pytools_hybrid.settings import ALIASES, Settings, variable

        name = told.option_name.lstrip("-").replace("-", "_")
        if settings := {name, f"{name}s"} & {*Settings.model_fields, *ALIASES}:
            told.message = f"{told.message}; set {variable(settings.pop())}"
    if are_json():
        write_json("ERROR", told.format_message())
    else:
        told.show()


def _has_folder() -> bool:
    try:
        return bool(Path.cwd())
    except OSError:
        return False
