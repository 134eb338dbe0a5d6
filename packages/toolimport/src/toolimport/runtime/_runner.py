"""What a generated package calls its tools with."""

from __future__ import annotations

# Too late once the main thread has ended, as it may have at the first call.
import concurrent.futures.thread  # noqa: F401
import os
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from toolimport.errors import ToolCallError, ToolImportError

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_types import CallToolResult
    from pydantic import BaseModel

    from toolimport.connect import Parameters

_SECONDS = 120.0


class ToolRunner:
    """Calls the tools of one MCP server.

    Args:
        server_name: The server's name in its configuration file.
        servers_file: The file; the variable `PYTOOLS_SERVERS` goes before.
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
        """Call a tool, and wait for its answer.

        Args:
            tool_name: The tool's name on the server.
            tool_args: A module's `Params`, or a mapping.
            result_model: A module's `Result`, of which the answer is to be one.

        Returns:
            The structured answer, or the text where the server gives no other.

        Raises:
            ToolCallError: The tool failed, or could not be called.
        """
        from toolimport.runtime._answers import answer_of

        answer = answer_of(self.call(tool_name, tool_args))
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
                f"its answer does not match its schema: {place}: {first['msg']}; "
                "CLIENT.call returns the raw answer",
            ) from None

    def call(self, tool_name: str, tool_args: Any) -> CallToolResult:  # noqa: ANN401
        """Call a tool, and give all that its server answered, pictures and the like too.

        Args:
            tool_name: The tool's name on the server.
            tool_args: A module's `Params`, or a mapping.

        Raises:
            ToolCallError: The tool failed, or could not be called.
        """
        from toolimport.errors import ServerError
        from toolimport.runtime._arguments import arguments_of
        from toolimport.runtime._background import background

        arguments, seconds = arguments_of(tool_args), self._seconds(tool_name)
        running, file = background(), self._file()

        async def job() -> CallToolResult:
            key = (str(file), self.server_name)
            link = running.link(key, self.server_name, lambda: self._parameters(file))
            return await link.call(tool_name, arguments, seconds)

        try:
            return running.run(job())
        except TimeoutError:
            raise ToolCallError(
                self.server_name,
                tool_name,
                f"no answer within {seconds:g} s; the variable PYTOOLS_CALL_TIMEOUT sets how many",
            ) from None
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
            if entry.name == self.server_name:
                return entry.parameters()
        raise ServerError(
            self.server_name,
            f"{file} no longer contains it; import the file again with --prune, or name "
            f"another by the "
            "variable PYTOOLS_SERVERS",
        )

    def _seconds(self, tool_name: str) -> float:
        text = os.environ.get("PYTOOLS_CALL_TIMEOUT") or str(_SECONDS)
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            raise ToolCallError(
                self.server_name,
                tool_name,
                f"PYTOOLS_CALL_TIMEOUT is {text!r}, which is not a time in seconds",
            )
        return seconds


def close() -> None:
    """End the connections of this process; the next call opens them again."""
    from toolimport.runtime._background import background

    background().close()
