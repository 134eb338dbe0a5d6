"""The supported clients: where each stores its servers, and in which form."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """An MCP client on this machine.

    No client has a key that reliably disables a server: Claude Code ignores `"disabled": true`, and
    Cursor and VS Code store the list of disabled servers elsewhere. So servers are moved to a key
    that the client ignores.

    Attributes:
        name: Its name on the command line.
        title: Its name for people.
        trace: A folder that exists once the client has been used.
        file: Its configuration file for all projects of a user.
        section: The key of its servers in the file.
        reference: How its files refer to an environment variable, with `{}` for the name; empty if
            they cannot.
        has_inputs: Whether its files can refer to inputs, which it asks the user for.
        extra: What it needs in our entry in addition.
        projects: The folders that are the current project, for a client that keeps the servers of
            projects in this file too.
        moves: Whether its servers are moved. freeact's are not, because it generates Python tools
            from them itself.
        next_step: What the user has to do afterwards.
    """

    name: str
    title: str
    trace: Path
    file: Path
    section: str = "mcpServers"
    reference: str = ""
    has_inputs: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    projects: tuple[Path, ...] = ()
    moves: bool = True
    next_step: str = "restart it"

    @property
    def is_installed(self) -> bool:
        """Whether it has been used on this machine."""
        return os.path.lexists(self.file) or self.trace.is_dir()

    @property
    def aside(self) -> str:
        """The key for servers that the client no longer starts itself."""
        return f"_{self.section}_before_pytools"

    @property
    def backup(self) -> Path:
        """The path of the backup from before setup."""
        return self.file.with_name(f"{self.file.name}.before-pytools")


def known_clients(
    *, system: str, environment: Mapping[str, str], home: Path, folder: Path
) -> tuple[Client, ...]:
    """Return every supported client, whether it is installed or not.

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
            # Without a default, Claude Code rejects our entry if the variable is not set.
            reference="${{{}:-}}",
            # Without it, Claude Code may leave all our tools out of a request.
            extra={"alwaysLoad": True},
            projects=_projects(folder),
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
            next_step="enable it under Customize > MCPs, because new servers are off in Cursor",
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


def _projects(folder: Path) -> tuple[Path, ...]:
    """Return the current folder, and the repository that it is in."""
    repository = next((it for it in (folder, *folder.parents) if (it / ".git").exists()), folder)
    return (folder, repository)
