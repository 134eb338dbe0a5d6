"""`pytools-hybrid index`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._embedding import embed
from pytools_hybrid.cli._options import Database, Model, Root
from pytools_hybrid.cli._run import existing_root, run, settings_from
from pytools_hybrid.terminal import print_sync, say

if TYPE_CHECKING:
    from pathlib import Path

    from pytools_hybrid.settings import Settings


@app.command(epilog="Example: pytools-hybrid index --root ~/agent/.freeact/generated")
def index(*, root: Root = None, db: Database = None, embedding_model: Model = None) -> None:
    """Bring the index up to date, and say what changed.

    Files that were left out are listed with the reason.
    """
    settings = settings_from(root=root, db_path=db, embedding_model=embedding_model)
    run(_index(settings, existing_root(settings)))


async def _index(settings: Settings, root: Path) -> None:
    from pytools_hybrid.service import ToolSearch

    async with ToolSearch(root, settings) as tools:
        report = await tools.refresh()
        failure, embedded = await embed(tools)
        await tools.tidy()
        print_sync(report, embedded, tools.index.path, with_issues=True)
        for tool_id, reason in (await tools.refused()).items():
            say(f"  no vector for {tool_id}: {reason}")
        if failure is not None:
            raise failure
