"""A stand-in for the client that generated modules call.

Modules generated from a real MCP server import a CLIENT that forwards the call to that server.
The example tools are written to be searched and read, so theirs has nothing to forward to.
"""

from __future__ import annotations

from typing import Any


class ExampleServerError(RuntimeError):
    """An example tool was called, and there is no server that could answer.

    Attributes:
        server_name: Name of the MCP server that the example imitates.
        tool_name: Name of the tool that was called.
    """

    def __init__(self, *, server_name: str, tool_name: str) -> None:
        self.server_name = server_name
        self.tool_name = tool_name
        super().__init__(
            f"{server_name}.{tool_name} cannot run: it is an example to search, with no MCP server "
            "behind it. Generate modules from a real server with 'pytools-hybrid import'."
        )


class ExampleClient:
    """Has the methods of a real client, each of which raises ExampleServerError."""

    def __init__(self, *, server_name: str) -> None:
        self.server_name = server_name

    def run_sync(self, tool_name: str, tool_args: dict[str, Any]) -> Any:
        """Refuse a call made by a synchronous tool."""
        raise ExampleServerError(server_name=self.server_name, tool_name=tool_name)

    async def run(self, tool_name: str, tool_args: dict[str, Any]) -> Any:
        """Refuse a call made by an asynchronous tool."""
        raise ExampleServerError(server_name=self.server_name, tool_name=tool_name)
