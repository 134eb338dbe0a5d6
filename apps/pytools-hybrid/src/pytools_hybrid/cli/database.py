"""`pytools-hybrid database`, whose commands toolindex-postgres has."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, cast

from pytools_hybrid import terminal
from pytools_hybrid.cli import app
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.terminal import say

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolindex_postgres import Address, SharedStore
    from toolindex_postgres.commands import Commands


def _server(database: str | None) -> Address | None:
    return app.settings_from(database=database).server


def _on_store(
    address: str,
    updates: bool,
    work: Callable[[SharedStore, terminal.Progress], str],
) -> str:
    """Do some work in the tree of an address, after updating it from the files if `updates`."""
    from toolindex import finish_in_thread

    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import check_roots

    settings = app.settings_from(database=address)
    try:
        roots, _ = settings.resolved_root()
        check_roots(roots, settings.origins.get("root", "--root"))
    except SettingsError:
        if updates:
            raise
        # The files are not on this host.
        settings = settings.model_copy(update={"sync": False})
        roots, _ = settings.resolved_root()

    async def in_tree(progress: terminal.Progress) -> str:
        async with ToolSearch(roots, settings, refresh=False) as tools:
            if updates:
                done = await tools.index.update(vectors=False, progress=progress)
                if done.files_error is not None:
                    raise done.files_error
            store = cast("SharedStore", tools.index.store)
            return await finish_in_thread(work, store, progress)

    with terminal.Progress() as progress:
        return app.run(in_tree(progress))


def print_trees(database: str | None, output: Literal["text", "json"]) -> None:
    """Print the trees on a server."""
    _commands().status(database, output)


def _commands() -> Commands:
    from toolindex_postgres.commands import Commands

    return Commands(
        server=_server,
        on_store=_on_store,
        invalid=SettingsError,
        say=say,
        print_lines=terminal.print_lines,
        print_json=terminal.print_json,
    )


if find_spec("toolindex_postgres") is not None:
    app.group("database", _commands().app())
else:

    @app.command(
        "database",
        epilog="Example: pytools-hybrid database init",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def _missing() -> None:
        """Needs the extra postgres."""
        from pytools_hybrid.installation import install_command

        command = install_command("pytools-hybrid[postgres]")
        raise SettingsError("postgres", f"this command needs an extra: {command}")
