"""The list of checks, ordered so that each only relies on earlier ones."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.reports.doctor._database import look_at_database, look_at_shared
from pytools_hybrid.reports.doctor._embedder import look_at_embedder
from pytools_hybrid.reports.doctor._environment import (
    full_text_search,
    look_at_importing,
    look_at_reranking,
    python_version,
    vector_search,
)
from pytools_hybrid.reports.doctor._finding import Check, Commands
from pytools_hybrid.reports.doctor._roots import look_at_no_root, look_at_root
from pytools_hybrid.reports.doctor._server import look_at_server
from pytools_hybrid.reports.doctor._settings import look_at_settings
from pytools_hybrid.reports.doctor._watcher import look_at_watching

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytools_hybrid.settings import Roots, Settings


def checks(
    settings: Settings | SettingsError, *, settings_file: Path | None = None
) -> Iterator[Check]:
    """Yield the checks for some settings; for an error, those that need no settings."""
    yield Check("Python", python_version, is_quick=True)
    yield Check("SQLite", full_text_search, is_quick=True)
    yield Check("sqlite-vec", vector_search, is_quick=True)
    yield Check("settings", partial(look_at_settings, settings), is_quick=True)
    if isinstance(settings, SettingsError):
        yield Check("watcher", partial(look_at_watching, None, is_wanted=True), 20.0)
        return
    try:
        roots, note = settings.resolved_root()
        database = settings.resolved_database(roots)
    except SettingsError as error:
        yield Check("root", partial(look_at_no_root, error))
        yield Check("embedder", partial(look_at_embedder, settings, None, None), 120.0)
        yield Check("watcher", partial(look_at_watching, None, is_wanted=settings.watch), 20.0)
        return
    yield from _of_roots(settings, roots, database, settings_file, is_default=note is not None)


def _of_roots(
    settings: Settings,
    roots: Roots,
    database: Path,
    settings_file: Path | None,
    *,
    is_default: bool,
) -> Iterator[Check]:
    commands = Commands(settings, roots)
    # If this host only reads a shared index, the files are on other hosts.
    for number in range(0 if settings.only_reads else len(roots)):
        name = "root" if len(roots) == 1 else f"root {number + 1}"
        look = partial(
            look_at_root, settings, roots, number, database, commands, is_default=is_default
        )
        yield Check(name, look, 60.0)
    looking = (
        partial(look_at_database, database, roots, commands)
        if settings.server is None
        else partial(look_at_shared, settings, roots, commands)
    )
    yield Check("database", looking, 60.0)
    yield Check("embedder", partial(look_at_embedder, settings, database, commands), 120.0)
    if settings.rerank_model is not None:
        yield Check("reranking", partial(look_at_reranking, settings.rerank_model), 60.0)
    if not settings.only_reads:
        watching = partial(look_at_watching, roots, is_wanted=settings.watch)
        yield Check("watcher", watching, 30.0)
    serving = partial(look_at_server, settings, roots, database, settings_file=settings_file)
    yield Check("MCP server", serving, 60.0)
    yield Check("import", look_at_importing, is_quick=True)
