"""The client with which a generated package calls its tools."""

from __future__ import annotations

# Imported early, because this fails once the main thread has ended.
import concurrent.futures.thread  # noqa: F401
import os
from concurrent.futures import CancelledError
from contextlib import AsyncExitStack, contextmanager
from typing import TYPE_CHECKING, Any, cast

from toolimport.errors import ToolCallError, ToolImportError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from pathlib import Path

    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import CallToolResult, RequestParamsMeta
    from pydantic import BaseModel

    from toolimport.connect import Parameters
    from toolimport.runtime._background import Background
    from toolimport.runtime._questions import Caller, LogMessage

_SECONDS = 120.0
_LOG_MESSAGES = 256


class ToolRunner:
    """Calls the tools of one MCP server.

    Args:
        server_name: The server's name in its configuration file.
        servers_file: The file; the variable `PYTOOLS_SERVERS` overrides it.
    """

    def __init__(self, server_name: str, servers_file: str | os.PathLike[str]) -> None:
        self.server_name = server_name
        self.servers_file = servers_file

    def run_sync(
        self,
        tool_name: str,
        tool_args: Any,  # noqa: ANN401 - any JSON
        result_model: type[BaseModel] | None = None,
    ) -> Any:  # noqa: ANN401
        """Call a tool and wait for its answer.

        Args:
            tool_name: The tool's name on the server.
            tool_args: A module's `Params`, or a mapping.
            result_model: A module's `Result`, to which the answer is converted.

        Returns:
            The structured answer, or the text if there is none.

        Raises:
            ToolCallError: The tool failed, or could not be called.
        """
        return self._converted(tool_name, self.call(tool_name, tool_args), result_model)

    async def run(
        self,
        tool_name: str,
        tool_args: Any,  # noqa: ANN401 - any JSON
        result_model: type[BaseModel] | None = None,
    ) -> Any:  # noqa: ANN401
        """Call a tool without blocking asyncio's event loop.

        Cancelling it cancels the call on the server. Arguments, result and errors are those of
        `run_sync`.
        """
        from toolimport.runtime._arguments import arguments_of

        result = await self.forward(tool_name, arguments_of(tool_args))
        return self._converted(tool_name, self._succeeded(tool_name, result), result_model)

    def call(self, tool_name: str, tool_args: Any) -> CallToolResult:  # noqa: ANN401
        """Call a tool and return its server's whole answer, including images and the like.

        The arguments are those of `run_sync`.

        Raises:
            ToolCallError: The tool failed, or could not be called.
        """
        from toolimport.runtime._arguments import arguments_of
        from toolimport.runtime._background import background

        arguments, running = arguments_of(tool_args), background()
        with self._explaining(tool_name):
            result = running.run(self._job(running, tool_name, arguments))
        return self._succeeded(tool_name, result)

    async def forward(
        self,
        tool_name: str,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFnT | None = None,
        caller: Caller | None = None,
    ) -> CallToolResult:
        """Call a tool from an event loop; cancelling the call also cancels it on the server.

        Args:
            tool_name: The tool's name on the server.
            arguments: The arguments.
            meta: The metadata to send with them.
            on_progress: Called in this loop with the progress that the server reports; if many
                reports come at once, only with the last.
            caller: Answers the server's questions during the call, in this loop. Without one,
                servers learn that they cannot ask.

        Returns:
            The server's whole answer, even if it says that the tool failed.

        Raises:
            ToolCallError: The tool could not be called.
        """
        from toolimport.runtime._background import background
        from toolimport.runtime._progress import Relay

        running, given = background(), dict(arguments)
        there = caller and caller.in_this_loop()
        with self._explaining(tool_name):
            async with AsyncExitStack() as relays:
                on_log, report = caller and caller.on_log, on_progress
                log: Callable[[LogMessage], None] | None = None
                if on_progress is not None:
                    report = (await relays.enter_async_context(Relay(on_progress, 1))).progress
                if on_log is not None:
                    log = (await relays.enter_async_context(Relay(on_log, _LOG_MESSAGES))).put
                job = self._job(
                    running,
                    tool_name,
                    given,
                    meta=meta,
                    on_progress=report,
                    on_log=log,
                    caller=there,
                )
                return await running.awaited(job)

    def check(self) -> None:
        """Raise `ServerError` if the configuration is incomplete, without opening a connection."""
        self._parameters(self._file())

    def is_connected(self) -> bool:
        """Return whether this process has an open connection to the server."""
        from toolimport.runtime._background import background

        return background().is_connected(str(self._file()), self.server_name)

    def _succeeded(self, tool_name: str, result: CallToolResult) -> CallToolResult:
        """Return a result, or raise `ToolCallError` if it is a failure or has no usable part."""
        from toolimport.runtime._answers import note_of, text_of

        if result.is_error:
            text = text_of(result) or "the server reported a failure without a reason"
            raise ToolCallError(self.server_name, tool_name, text)
        if note := note_of(result):
            if not result.content and result.structured_content is None:
                raise ToolCallError(self.server_name, tool_name, note)
            import logging

            log = logging.getLogger("toolimport.servers")
            log.warning("%s: %s: %s", self.server_name, tool_name, note)
        return result

    def _converted(
        self, tool_name: str, result: CallToolResult, result_model: type[BaseModel] | None
    ) -> Any:  # noqa: ANN401
        """Return what `run_sync` returns."""
        from toolimport.runtime._answers import answer_of

        answer = answer_of(result)
        if result_model is None:
            return answer
        from pydantic import ValidationError

        try:
            return result_model.model_validate(answer)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "all of it"
            raise ToolCallError(
                self.server_name,
                tool_name,
                "the call was carried out, but its answer does not match its schema: "
                f"{place}: {first['msg']}; this error's `answer` has all of it",
                answer=answer,
            ) from None

    async def _job(
        self,
        running: Background,
        tool_name: str,
        arguments: dict[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFnT | None = None,
        on_log: Callable[[LogMessage], None] | None = None,
        caller: Caller | None = None,
    ) -> CallToolResult:
        file = self._file()
        abilities: frozenset[str] = caller.abilities if caller else frozenset()
        key = (str(file), self.server_name, abilities)
        link = running.link(key, lambda: self._parameters(file))
        sent = None if meta is None else cast("RequestParamsMeta", dict(meta))
        return await link.call(
            tool_name,
            arguments,
            self._seconds(tool_name),
            meta=sent,
            on_progress=on_progress,
            on_log=on_log,
            caller=caller,
        )

    @contextmanager
    def _explaining(self, tool_name: str) -> Generator[None]:
        """Convert any error of a call into `ToolCallError`."""
        from toolimport.errors import ServerError

        try:
            yield
        except TimeoutError:
            raise ToolCallError(
                self.server_name,
                tool_name,
                f"no answer within {self._seconds(tool_name):g} s; "
                "the variable PYTOOLS_CALL_TIMEOUT sets this limit",
            ) from None
        except ToolCallError:
            raise
        except ServerError as error:
            raise ToolCallError(self.server_name, tool_name, error.detail) from None
        except (CancelledError, RuntimeError) as error:
            problem = str(error) or "the connection was closed in the meantime"
            raise ToolCallError(self.server_name, tool_name, problem) from None
        except ToolImportError as error:
            raise ToolCallError(self.server_name, tool_name, str(error)) from None

    def _file(self) -> Path:
        from toolimport.connect import full_path

        named = os.environ.get("PYTOOLS_SERVERS") or self.servers_file
        return full_path(named)

    def _parameters(self, file: Path) -> Parameters:
        from toolimport.connect import read_servers
        from toolimport.errors import ServerError, ServersFileError

        try:
            entries = read_servers(file)
        except ServersFileError as error:
            hint = "the variable PYTOOLS_SERVERS names another file"
            raise ServerError(self.server_name, f"{error}; {hint}") from None
        for entry in entries:
            if entry.name == self.server_name and entry.disabled:
                raise ServerError(self.server_name, f"it is disabled in {file}")
            if entry.name == self.server_name:
                return entry.parameters()
        raise ServerError(
            self.server_name,
            f"{file} no longer contains it; import the file again with --prune, or name another "
            "in the variable PYTOOLS_SERVERS",
        )

    def _seconds(self, tool_name: str) -> float:
        try:
            return call_seconds()
        except ValueError as error:
            raise ToolCallError(self.server_name, tool_name, str(error)) from None


def call_seconds() -> float:
    """Return how many seconds a call may take, from the variable `PYTOOLS_CALL_TIMEOUT`.

    Raises:
        ValueError: The variable is not a time in seconds.
    """
    text = os.environ.get("PYTOOLS_CALL_TIMEOUT") or str(_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"PYTOOLS_CALL_TIMEOUT is {text!r}, which is not a time in seconds")
    return seconds


def close() -> None:
    """Close all connections of this process; the next call opens them again."""
    from toolimport.runtime._background import background

    background().close()
