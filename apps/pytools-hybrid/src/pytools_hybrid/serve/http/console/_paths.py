"""The paths of the console."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit


def tool_path(id_: str) -> str:
    """Return the path of a tool's page."""
    return f"/console/tools/{quote(id_, errors='replace')}"


def is_console_path(path: str) -> bool:
    """Return whether a path belongs to a page or its static files."""
    return path in {"/", "/docs"} or path.startswith("/console/")


def console_path(target: str) -> str:
    """Return a console path with its query, or `/` for any other address."""
    try:
        parts = urlsplit(target)
    except ValueError:
        return "/"
    is_own = not parts.scheme and not parts.netloc and is_console_path(parts.path)
    return urlunsplit(("", "", parts.path, parts.query, "")) if is_own else "/"
