"""The client with which a generated package calls its tools."""

from __future__ import annotations

# Imported early, because this fails once the main thread has ended.
import concurrent.futures.thread  # noqa: F401
import os
from collections.abc import Mapping
from concurrent.futures import CancelledError
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from toolimport._errors import ServerError, ServersFileError, ToolCallError, ToolImportError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Hashable
    from pathlib import Path

    from mcp.shared.dispatcher import ProgressFnT
    from mcp_types import (
        CallToolResult,
        ErrorData,
        InputRequest,
        InputResponse,
        LoggingLevel,
        LoggingMessageNotificationParams,
    )
    from pydantic import BaseModel

    from toolimport.clients._servers import Parameters
    from toolimport.runtime._background import Background
    from toolimport.runtime._connection import Call

_SECONDS = 120.0
_LOG_MESSAGES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHandlers:
    """The client that makes a call, and answers the server's requests during it.

    Attributes:
        answer: Answers a request for the user's input (elicitation), a message by the model
            (sampling), or the roots.
        capabilities: The kinds of requests it can answer: "elicitation", "sampling",
            "sampling.tools", "roots". Servers learn them on connecting, so different capabilities
            need different connections.
        client: Identifies the client: calls with equal values can answer each other's requests.
        on_log: Called with the server's log messages during the call, whose `logger` begins with
            the server's name; of a flood, with the last ones.
        log_level: The minimum level; servers with older protocols may send lower ones.
    """

    answer: Callable[[InputRequest], Awaitable[InputResponse | ErrorData]]
    capabilities: frozenset[str]
    client: Hashable
    on_log: Callable[[LoggingMessageNotificationParams], Awaitable[None]] | None = None
    log_level: LoggingLevel | None = None


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
        result = await self.forward(tool_name, arguments_of(tool_args))
        return self._converted(tool_name, self._succeeded(tool_name, result), result_model)

    def call(self, tool_name: str, tool_args: Any) -> CallToolResult:  # noqa: ANN401
        """Call a tool and return its server's whole answer, including images and the like.

        The arguments are those of `run_sync`.

        Raises:
            ToolCallError: The tool failed, or could not be called.
        """
        from toolimport.runtime._background import background
        from toolimport.runtime._connection import Call

        arguments, running = arguments_of(tool_args), background()
        with self._explaining(tool_name):
            call = Call(tool=tool_name, arguments=arguments, seconds=self.call_seconds())
            result = running.run(self._called(running, call))
        return self._succeeded(tool_name, result)

    async def forward(
        self,
        tool_name: str,
        arguments: Mapping[str, Any],
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: ProgressFnT | None = None,
        client: ClientHandlers | None = None,
    ) -> CallToolResult:
        """Call a tool from an event loop; cancelling the call also cancels it on the server.

        Args:
            tool_name: The tool's name on the server.
            arguments: The arguments.
            meta: The metadata to send with them.
            on_progress: Called in this loop with the progress that the server reports; if many
                reports come at once, only with the last.
            client: Answers the server's requests during the call, in this loop. Without one,
                servers learn that they cannot ask.

        Returns:
            The server's whole answer, even if it says that the tool failed.

        Raises:
            ToolCallError: The tool could not be called.
        """
        from toolimport.runtime._background import background, in_this_loop
        from toolimport.runtime._connection import Call, Relay

        running = background()
        with self._explaining(tool_name):
            async with AsyncExitStack() as relays:
                call = Call(
                    tool=tool_name,
                    arguments=dict(arguments),
                    seconds=self.call_seconds(),
                    meta=meta,
                    client=client and in_this_loop(client),
                )
                if on_progress is not None:
                    relay = await relays.enter_async_context(Relay(on_progress, 1))
                    call.on_progress = relay.progress
                if client is not None and client.on_log is not None:
                    relay = await relays.enter_async_context(Relay(client.on_log, _LOG_MESSAGES))
                    call.on_log = relay.put
                return await running.awaited(self._called(running, call))

    def check(self) -> None:
        """Raise `ToolImportError` if the configuration is incomplete, without connecting."""
        self._parameters(self._file())

    def is_connected(self) -> bool:
        """Return whether this process has an open connection to the server."""
        from toolimport.runtime._background import background

        return background().is_connected(str(self._file()), self.server_name)

    @staticmethod
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

    def _succeeded(self, tool_name: str, result: CallToolResult) -> CallToolResult:
        """Return a result, or raise `ToolCallError` if it is a failure or has no usable part."""
        from toolimport._connect._messages import note_of, text_of

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
        from toolimport._connect._messages import text_of

        answer: Any = result.structured_content
        if answer is None:
            answer = text_of(result)
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

    async def _called(self, running: Background, call: Call) -> CallToolResult:
        file = self._file()
        capabilities: frozenset[str] = call.client.capabilities if call.client else frozenset()
        key = (str(file), self.server_name, capabilities)
        return await running.connection(key, lambda: self._parameters(file)).call(call)

    @contextmanager
    def _explaining(self, tool_name: str) -> Generator[None]:
        """Convert any error of a call into `ToolCallError`."""
        try:
            yield
        except ToolCallError:
            raise
        except TimeoutError:
            problem = (
                f"no answer within {self.call_seconds():g} s; "
                "the variable PYTOOLS_CALL_TIMEOUT sets this limit"
            )
        except ServerError as error:
            problem = error.reason
        except (CancelledError, RuntimeError) as error:
            problem = str(error) or "the connection was closed in the meantime"
        except (ToolImportError, ValueError) as error:
            problem = str(error)
        else:
            return
        raise ToolCallError(self.server_name, tool_name, problem)

    def _file(self) -> Path:
        from toolimport.clients._servers import full_path

        return full_path(os.environ.get("PYTOOLS_SERVERS") or self.servers_file)

    def _parameters(self, file: Path) -> Parameters:
        from toolimport.clients._servers import read_servers

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


def arguments_of(params: Any) -> dict[str, Any]:  # noqa: ANN401 - a stranger's model
    """Return the arguments to send: what was given, by the server's names.

    Defaults are left to the server, and None that was given is sent as null.

    Raises:
        TypeError: `params` is neither an instance of a module's `Params` nor a mapping.
    """
    if isinstance(params, Mapping):
        return dict(cast("Mapping[str, Any]", params))
    if not hasattr(params, "model_dump"):
        raise TypeError(f"parameters must be a Params object or a mapping, not {params!r}")
    # In generated models the default of an enum is a plain string, about which pydantic warns.
    arguments = params.model_dump(mode="json", by_alias=True, exclude_unset=True, warnings=False)
    if not isinstance(arguments, dict):
        raise TypeError(f"parameters must be an object, not {arguments!r}")
    return cast("dict[str, Any]", arguments)


def close() -> None:
    """Close all connections of this process; the next call opens them again."""
    from toolimport.runtime._background import background

    background().close()
