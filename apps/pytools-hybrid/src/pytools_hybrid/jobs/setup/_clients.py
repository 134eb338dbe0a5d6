"""The clients that setup knows: where each keeps its servers, and in what form."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """An MCP client on this machine.

    None of them has a key that switches a server off and is obeyed when the client starts: Claude
    Code ignores `"disabled": true`, and Cursor and VS Code remember elsewhere what was switched
    off. So servers are moved under a key that the client ignores.

    Attributes:
        name: What it is called on the command line.
        title: What it calls itself.
        trace: A folder that is there once it has been used.
        file: Its configuration for all projects of a user.
        section: The key of its servers there.
        reference: How its files refer to an environment variable, `{}` being the name; "" where
            they cannot.
        has_inputs: Whether its files can refer to what it asks its user for.
        moves: Whether its servers become ours. freeact makes Python tools of its servers itself.
        next_step: What is left for its user to do.
    """

    name: str
    title: str
    trace: Path
    file: Path
    section: str = "mcpServers"
    reference: str = ""
    has_inputs: bool = False
    moves: bool = True
    next_step: str = "restart it"

    @property
    def is_installed(self) -> bool:
        """Whether it has left a trace on this machine."""
        return os.path.lexists(self.file) or self.trace.is_dir()

    @property
    def aside(self) -> str:
        """The key under which servers are kept that it no longer starts itself."""
        return f"_{self.section}_before_pytools"

    @property
    def backup(self) -> Path:
        """Where the file lies as it was before setup."""
        return self.file.with_name(f"{self.file.name}.before-pytools")


def known_clients(
    *, system: str, environment: Mapping[str, str], home: Path, folder: Path
) -> tuple[Client, ...]:
    """Return every client that setup knows, whether it is installed or not.

    Args:
        system: The operating system, as in `sys.platform`.
        environment: The environment variables.
        home: The user's home folder.
        folder: The current folder, for a client that is configured in its project.
    """
    match system:
        case "darwin":
            settings = home / "Library" / "Application Support"
        case "win32":
            settings = Path(environment.get("APPDATA") or home / "AppData" / "Roaming")
        case _:
            settings = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    claude = environment.get("CLAUDE_CONFIG_DIR")
    freeact = folder / ".freeact"
    toml = freeact / "config.toml"
    return (
        Client(
            name="claude-code",
            title="Claude Code",
            trace=Path(claude or home / ".claude"),
            file=Path(claude or home) / ".claude.json",
            # Without a default it would refuse our entry where the variable is not set.
            reference="${{{}:-}}",
        ),
        Client(
            name="claude-desktop",
            title="Claude Desktop",
            trace=settings / "Claude",
            file=settings / "Claude" / "claude_desktop_config.json",
        ),
        Client(
            name="cursor",
            title="Cursor",
            trace=home / ".cursor",
            file=home / ".cursor" / "mcp.json",
            reference="${{env:{}}}",
            next_step="look under Customize > MCPs: Cursor switches a new server off until you "
            "enable it",
        ),
        Client(
            name="vscode",
            title="VS Code",
            trace=settings / "Code" / "User",
            file=settings / "Code" / "User" / "mcp.json",
            section="servers",
            reference="${{env:{}}}",
            has_inputs=True,
            next_step="run 'MCP: List Servers', and start pytools",
        ),
        Client(
            name="freeact",
            title="freeact",
            trace=freeact,
            file=toml if toml.exists() else freeact / "agent.json",
            section="mcp_servers",
            moves=False,
        ),
    )
