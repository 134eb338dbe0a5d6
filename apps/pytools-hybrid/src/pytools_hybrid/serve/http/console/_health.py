"""The health page: whether the index is up to date, what it contains, and what does not work."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolimport.runtime import imported_servers
from toolindex import ToolIndexError

from pytools_hybrid.index import size_on_disk
from pytools_hybrid.reports.doctor import checks, diagnose
from pytools_hybrid.serve.http._api import Parameters, read_query
from pytools_hybrid.serve.http._problems import ProblemError
from pytools_hybrid.serve.http.console._pages import left_out
from pytools_hybrid.settings import is_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request

    from pytools_hybrid.reports.doctor import Finding
    from pytools_hybrid.search import ToolSearch

_SHOWN_SERVERS = 100


class HealthForm(Parameters):
    """The form of the page."""

    refresh: bool = False


class HealthPage:
    """Shows the state of a server and its index."""

    def __init__(self, search: ToolSearch) -> None:
        self._search = search
        self._quick: Sequence[Finding] | None = None
        self._checking = asyncio.Lock()
        self._changed: tuple[str, str] = ("", "")

    async def values(
        self, request: Request, findings: Sequence[Finding] | None = None
    ) -> Mapping[str, Any]:
        """Return the values of the page.

        Args:
            request: The request.
            findings: The results of all checks; None to run only the quick ones.
        """
        form = read_query(HealthForm, request, is_form=True)
        search, store = self._search, self._search.index.store
        state = await self._state()
        if findings is None and self._quick is None:
            # Installed packages do not change while the server runs.
            self._quick = await asyncio.to_thread(self._diagnose, quick=True)
        if self._changed[0] != state["generation"]:
            # This reads every tool.
            changed = moment(await search.index.changed_at())
            self._changed = state["generation"], changed
        visible = {it.category for it in await search.categories()}
        found, on_disk = await asyncio.to_thread(self._inspect)
        servers = [it for it in found if it["category"] in visible]
        return {
            **state,
            **on_disk,
            "refresh": form.refresh,
            "changed": self._changed[1],
            "left_out": len(left_out(search)),
            "database": store.where,
            "read_only": store.read_only,
            "settings": search.settings,
            "servers": servers[:_SHOWN_SERVERS],
            "more_servers": len(servers[_SHOWN_SERVERS:]),
            "findings": self._quick if findings is None else findings,
            "all_checked": findings is not None,
        }

    async def check_all(self, request: Request) -> Mapping[str, Any]:
        """Run all checks of `doctor`, which takes seconds, and return the values of the page.

        Raises:
            ProblemError: The checks are already running.
        """
        if self._checking.locked():
            raise ProblemError(
                503,
                "all checks are already running; try again in a few seconds",
                headers={"Retry-After": "5"},
            )
        async with self._checking:
            findings = await asyncio.to_thread(self._diagnose, quick=False)
        return await self.values(request, findings)

    def _diagnose(self, *, quick: bool) -> Sequence[Finding]:
        settings = self._search.settings.model_copy(update={"root": list(self._search.roots)})
        return tuple(diagnose(it for it in checks(settings) if it.is_quick or not quick))

    async def _state(self) -> dict[str, Any]:
        """Return the state of the index as text, and the progress of current work, from 0 to 1."""
        index = self._search.index
        sync, follows = index.sync, index.settings.follows_files
        shown: dict[str, Any] = {"progress": None, "synced": moment(sync.synced_at)}
        try:
            state, unreachable = await index.state(), await index.server_unreachable()
        except ToolIndexError as error:
            unknown = {"tools": "unknown", "vectors": "unknown", "generation": ""}
            return shown | unknown | {"status": f"cannot be read: {error}"}
        coverage, embeds = state.coverage, index.embedder is not None
        status = "up to date" if follows else "used without updates"
        if sync.progress is not None:
            status = f"indexing: {sync.progress}"
            shown["progress"] = min(sync.progress.read / max(sync.progress.total, 1), 1.0)
        elif sync.is_first_scan:
            status = "scanning the files"
            shown["progress"] = 0.0
        elif unreachable:
            status = unreachable
        elif sync.failure is not None:
            status = f"may be out of date: {sync.failure}"
        elif embeds and coverage.vectors < coverage.tools and not index.vectors.failure and follows:
            status = "up to date with the files; embedding"
            shown["progress"] = coverage.vectors / coverage.tools
        vectors = "no model: searches use words alone"
        if embeds:
            vectors = f"{coverage.vectors:,} of {coverage.tools:,} tools have vectors"
            if index.vectors.failure:
                vectors += f"; {index.vectors.failure}"
        return shown | {
            "status": status,
            "tools": f"{coverage.tools:,}",
            "vectors": vectors,
            "generation": str(state.generation),
        }

    def _inspect(self) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the servers imported into the roots, and the state of the roots and the index."""
        servers = [
            {
                "name": it.name,
                "category": it.folder.name,
                "tools": len(it.tools),
                "imported_at": moment(it.imported_at),
                "problem": it.problem(),
                "is_connected": it.is_connected(),
            }
            for root in self._search.roots
            for it in imported_servers(root)
        ]
        # An index on a server has an address instead of a path, so its size is 0.
        size = size_on_disk(Path(self._search.index.store.where))
        return servers, {
            "roots": [(str(root), is_folder(root)) for root in self._search.roots],
            "size": size,
        }


def moment(at: float | None) -> str:
    """Format a time for people."""
    return "not yet" if at is None else f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
