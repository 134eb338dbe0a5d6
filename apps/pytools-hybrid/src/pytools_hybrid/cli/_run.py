"""Making settings from a command's flags, and running jobs that can be interrupted."""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pytools_hybrid.cli._app import common
from pytools_hybrid.errors import SettingsError
from pytools_hybrid.exit import exit_now
from pytools_hybrid.logs import configure_logging, use_format
from pytools_hybrid.terminal import Progress, say

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Coroutine

    from pytools_hybrid.search import ToolSearch
    from pytools_hybrid.settings import Roots, Settings

T = TypeVar("T")

_GRACE_SECONDS = 0.5
_SHOW_CURSOR = "\x1b[?25h"


def run(job: Coroutine[Any, Any, T], *, grace: float = _GRACE_SECONDS) -> T:
    """Run a job until it is done; Ctrl-C or SIGTERM end the process promptly.

    After an interruption, the job has `grace` seconds to clean up.
    """
    import asyncio
    import signal

    async def until_interrupted() -> T:
        loop = asyncio.get_running_loop()
        signalled: asyncio.Future[int] = loop.create_future()
        for number in (signal.SIGINT, signal.SIGTERM):
            # Windows' event loop has no signal handlers, and neither have other threads.
            with suppress(RuntimeError, NotImplementedError):
                loop.add_signal_handler(number, _note, signalled, number)
        task = asyncio.ensure_future(job)
        awaited: set[asyncio.Future[Any]] = {task, signalled}
        try:
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            _note(signalled, signal.SIGINT)
        if signalled.done():
            task.cancel()
            await asyncio.wait({task}, timeout=grace)
            if sys.stderr.isatty():
                sys.stderr.write(f"\r{_SHOW_CURSOR}")
            say("interrupted")
            exit_now(128 + signalled.result())
        return task.result()

    return asyncio.run(until_interrupted())


def _note(signalled: asyncio.Future[int], number: int) -> None:
    if not signalled.done():
        signalled.set_result(number)


def settings_from(
    *,
    is_server: bool = False,
    **flags: Any,  # noqa: ANN401 - each flag has its own type
) -> Settings:
    """Return the settings with a command's flags applied, and configure logging.

    If the provider of the embedding model is unknown, a server searches by words, because the
    client that started it would not show an error.
    """
    from toolembed.providers import check_provider

    from pytools_hybrid.settings import Settings

    settings = Settings.from_flags(
        {"log_level": common.get("log_level"), "log_format": common.get("log_format"), **flags},
        file=common.get("config"),
    )
    import logging

    from pytools_hybrid.telemetry import is_wanted, start_tracing

    use_format(settings.log_format)
    secrets = [settings.token.get_secret_value()] if settings.token else []
    configure_logging(settings.log_level, secrets=secrets)
    if is_wanted():
        try:
            start_tracing()
        except ImportError:
            from pytools_hybrid.installation import install_command

            # The variables may be meant for another program.
            logging.getLogger("pytools_hybrid").log(
                logging.WARNING if is_server else logging.INFO,
                "variables OTEL_… are set, but sending traces needs an extra: %s",
                install_command("pytools-hybrid[otel]"),
            )
    # At INFO and below, watchfiles logs every change, even those of the index.
    logging.getLogger("watchfiles").setLevel(logging.WARNING)
    # These log tracebacks, contents and addresses. We report the same failures without secrets.
    for name in ("client", "mcp.client", "mcp.os", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    for name in ("embedding_model", "rerank_model"):
        # Users should know when queries and tools are sent to others.
        origin, value = settings.origins.get(name, ""), str(getattr(settings, name))
        if ":" in value and origin.endswith(".toml"):
            say(f"{name} {value} is from {origin}")
    if not is_server:
        try:
            check_provider(settings.embedding_model)
        except ValueError as error:
            name = settings.origins.get("embedding_model", "--embedding-model")
            raise SettingsError(name, str(error)) from error
    for name, nearest in Settings.unknown_variables().items():
        hint = f"; did you mean {nearest}?" if nearest else ""
        logging.getLogger("pytools_hybrid").warning("%s is not a setting%s", name, hint)
    return settings


def existing_roots(settings: Settings) -> Roots:
    """Return the trees in the settings, which must exist unless a shared index is only read."""
    from pytools_hybrid.settings import check_roots

    roots, note = settings.resolved_root()
    if not settings.only_reads:
        check_roots(roots, settings.origins.get("root", "--root"))
    if note:
        say(note)
    say_tree(settings, roots)
    return roots


def say_tree(settings: Settings, roots: Roots) -> None:
    """Report which tree of a shared index is used, if none was named."""
    server = settings.resolved_server(roots)
    if server is not None and server != settings.server:
        say(f"using the tree {server.tree} of the shared index (its address has no tree=NAME)")


@asynccontextmanager
async def current(settings: Settings, roots: Roots) -> AsyncGenerator[ToolSearch]:
    """Open the index and bring it up to date if the settings say so, without embedding.

    If updating fails, the index is used as it is.
    """
    from pytools_hybrid.search import ToolSearch

    async with ToolSearch(roots, settings, refresh=False) as tools:
        if settings.sync and not tools.index.store.read_only:
            with Progress() as progress:
                done = await tools.index.update(vectors=False, progress=progress)
            if done.error is not None:
                say(f"the index may be out of date: {done.error}")
        await tools.index.warn_of_idle_patterns()
        yield tools
