"""`pytools-hybrid database` and `pytools-hybrid migrate`, which toolindex-postgres has."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

from pytools_hybrid.cli._app import app
from pytools_hybrid.cli._run import run, settings_from
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import Progress, print_json, print_lines, say

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from toolindex_postgres import Address, SharedStore


def _server(database: str | None) -> Address | None:
    return settings_from(database=database).server


def _on_store(
    address: str,
    root: list[Path] | None,
    updates: bool,
    work: Callable[[SharedStore, Progress], str],
) -> str:
    """Do some work in the tree of an address, after updating it from the files if `updates`."""
    from toolindex import finish_in_thread

    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import check_roots

    settings = settings_from(database=address, root=root)
    try:
        roots, _ = settings.resolved_root()
        check_roots(roots, settings.origins.get("root", "--root"))
    except SettingsError:
        if updates:
            raise
        # The files are not on this host.
        settings = settings.model_copy(update={"sync": False})
        roots, _ = settings.resolved_root()

    async def in_tree(progress: Progress) -> str:
        async with ToolSearch(roots, settings, refresh=False) as tools:
            if updates:
                done = await tools.index.update(vectors=False, progress=progress)
                if done.files_error is not None:
                    raise done.files_error
            store = cast("SharedStore", tools.index.store)
            return await finish_in_thread(work, store, progress)

    with Progress() as progress:
        return run(in_tree(progress))


if find_spec("toolindex_postgres") is not None:
    from toolindex_postgres.commands import Commands

    Commands(
        server=_server,
        on_store=_on_store,
        invalid=SettingsError,
        say=say,
        print_lines=print_lines,
        print_json=print_json,
    ).add_to(app)
else:
    _ANY = {"ignore_unknown_options": True, "allow_extra_args": True}

    @app.command("database", context_settings=_ANY)
    @app.command("migrate", context_settings=_ANY)
    def _missing() -> None:
        """Manage an index that many hosts share; needs the extra postgres."""
        from pytools_hybrid.installation import install_command

        command = install_command("pytools-hybrid[postgres]")
        raise SettingsError("postgres", f"this command needs an extra: {command}")
