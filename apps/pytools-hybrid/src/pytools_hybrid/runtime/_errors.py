"""The one error of a call."""

from __future__ import annotations

from pytools_hybrid.errors import PytoolsError

__all__ = ["ToolCallError"]


class ToolCallError(PytoolsError):
    """A tool could not be called, or its server says that it failed.

    Attributes:
        server: The server's name.
        tool: The tool's name there.
        detail: What is wrong: the server's own words where it answered.
    """

    def __init__(self, server: str, tool: str, detail: str) -> None:
        super().__init__(f"{server}: {tool}: {detail}")
        self.server = server
        self.tool = tool
        self.detail = detail
