"""Checking the embedding model with a real call, and how many tools have its vectors."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from pytools_hybrid.index import configured_embedder
from pytools_hybrid.reports.doctor._finding import Commands, Verdict, failed, fine, warning
from pytools_hybrid.settings import REMEDIES

if TYPE_CHECKING:
    from pathlib import Path

    from toolindex import Coverage

    from pytools_hybrid.settings import Settings

PROBE = "merge two pdf files"
"""The text of test calls to models."""

_LOOK = "pytools-hybrid doctor --models"
_COMMANDS = (
    re.compile(r"run: (.+)$"),
    re.compile(r"\((ollama serve)\)"),
)
_SETTING = re.compile(r"set (PYTOOLS_\w+=\w+)")
_KEY = re.compile(r"`([A-Z][A-Z0-9_]*(?:KEY|TOKEN|URL|PROJECT|REGION))`")


def look_at_embedder(
    settings: Settings, database: Path | None, commands: Commands | None
) -> Verdict:
    """Check the model by embedding four words."""
    from toolembed import EmbeddingError

    embedder = configured_embedder(settings)
    if embedder is None:
        return fine("none is configured: searches use words alone")
    if settings.vec_weight == 0:
        return fine(f"{settings.embedding_model} is not used: PYTOOLS_VEC_WEIGHT is 0")
    started = time.perf_counter()
    try:
        vector = asyncio.run(embedder.embed_query(PROBE))
    except EmbeddingError as error:
        return failed(
            f"{error} (searches use static meanwhile)",
            remedy_of(error.reason, model=settings.embedding_model),
        )
    milliseconds = 1000 * (time.perf_counter() - started)
    shown = (
        f"{embedder.model_id} answers: {len(vector)} dimensions in {milliseconds:.0f} ms, "
        "including loading"
    )
    coverage = None if database is None else _coverage(database, embedder.model_id)
    if coverage is None:
        return fine(shown)
    if coverage.vectors and coverage.dimensions != len(vector):
        remedy = commands.index() if commands is not None else None
        return warning(
            f"{shown}; the {coverage.vectors} vectors in the index have {coverage.dimensions}, so "
            f"searches use static until all tools are embedded again",
            remedy,
        )
    counted = f"{coverage.vectors} of {coverage.tools} tools have a vector"
    if coverage.vectors < coverage.tools:
        remedy = commands.index() if commands is not None else None
        return warning(f"{shown}; {counted}", remedy)
    return fine(f"{shown}; {counted}")


def remedy_of(message: str, *, model: str) -> str:
    """Return the command in the message of a failed call, or a general one.

    Args:
        message: The error message, which may contain the name of the model.
        model: The name of the model, which may come from a cloned repository's settings file.
    """
    # The patterns contain a space or match whole names, so that a model's name cannot be taken for
    # a command.
    if any(map(str.isspace, model)):
        return _LOOK
    if (command := REMEDIES.to_install(model)) in message:
        return command
    for pattern in _COMMANDS:
        if found := pattern.search(message):
            return found[1]
    if setting := _SETTING.search(message):
        return f"export {setting[1]}"
    if variable := _KEY.search(message):
        return f"export {variable[1]}=…"
    return _LOOK


def _coverage(database: Path, model_id: str) -> Coverage | None:
    from toolindex import ToolIndex, ToolIndexError

    with suppress(ToolIndexError):
        if database.is_file():
            with ToolIndex(database, read_only=True) as index, index.reading() as reader:
                return reader.coverage(model_id)
    return None
