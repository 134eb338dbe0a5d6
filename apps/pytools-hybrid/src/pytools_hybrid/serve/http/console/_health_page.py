"""The health page: whether the index is up to date, what it contains, and what does not work."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolimport.runtime import imported_servers

from pytools_hybrid.index import size_on_disk
from pytools_hybrid.reports.doctor import checks, diagnose
from pytools_hybrid.serve.http._parameters import NoQuery, read_query
from pytools_hybrid.serve.http._problems import ProblemError
from pytools_hybrid.serve.http.console._catalogue_page import left_out
from pytools_hybrid.serve.http.console._live import LiveState, moment
from pytools_hybrid.settings import is_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from starlette.requests import Request
    from toolimport.runtime import ImportedServer

    from pytools_hybrid.reports.doctor import Finding
    from pytools_hybrid.search import ToolSearch

_SHOWN_SERVERS = 100


class HealthPage:
    """Shows the state of a server and its index.

    Args:
        search: The search.

    Attributes:
        live: The part of the page that is updated.
    """

    def __init__(self, search: ToolSearch) -> None:
        self.live: LiveState = LiveState(search)
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

        Raises:
            ProblemError: The query of the page is invalid.
            DatabaseError: The index cannot be read.
        """
        read_query(NoQuery, request)
        search = self._search
        settings = search.settings
        live = await self.live.values()
        if findings is None and self._quick is None:
            # Installed packages do not change while the server runs.
            self._quick = await asyncio.to_thread(self._diagnosed, quick=True)
        roots, servers, size = await asyncio.to_thread(self._looked_at)
        visible = {it.category for it in await search.categories()}
        servers = [it for it in servers if it.category in visible]
        return {
            "live": live,
            "changed": await self._last_change(live.get("generation", "")),
            "left_out": len(left_out(search)),
            "over_limit": search.index.sync.over_limit,
            "roots": roots,
            "database": search.index.store.where,
            "size": size,
            "read_only": search.index.store.read_only,
            "settings": settings,
            "servers": servers[:_SHOWN_SERVERS],
            "more_servers": len(servers[_SHOWN_SERVERS:]),
            "moment": moment,
            "findings": self._quick if findings is None else findings,
            "all_checked": findings is not None,
        }

    async def check_all(self, request: Request) -> Mapping[str, Any]:
        """Run all checks of `doctor`, which takes seconds, and return the values of the page.

        Raises:
            ProblemError: The checks are already running.
            DatabaseError: The index cannot be read.
        """
        if self._checking.locked():
            raise ProblemError(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "all checks are already running; try again in a few seconds",
                headers={"Retry-After": "5"},
            )
        async with self._checking:
            findings = await asyncio.to_thread(self._diagnosed, quick=False)
        return await self.values(request, findings)

    def _diagnosed(self, *, quick: bool) -> Sequence[Finding]:
        settings = self._search.settings.model_copy(update={"root": list(self._search.roots)})
        return tuple(diagnose(it for it in checks(settings) if it.is_quick or not quick))

    def _looked_at(self) -> tuple[list[tuple[str, bool]], list[ImportedServer], int]:
        """Inspect the disk: the roots, the servers imported into them, the index."""
        roots = self._search.roots
        servers = [server for root in roots for server in imported_servers(root)]
        # An index on a server has an address instead of a path, so its size is 0.
        size = size_on_disk(Path(self._search.index.store.where))
        return [(str(root), is_folder(root)) for root in roots], servers, size

    async def _last_change(self, state: str) -> str:
        # This reads every tool, so the result is kept until the index changes.
        if self._changed[0] != state:
            self._changed = state, moment(await self._search.index.changed_at())
        return self._changed[1]
