"""The command that installs a missing package, for remedies."""

from __future__ import annotations

import json
import re
import sys
from importlib.metadata import Distribution, PackageNotFoundError
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

__all__ = ["install_command"]

_NAME = "pytools-hybrid"
_PLAIN = re.compile(r"[\w@%+=:,./\\-]+")


def install_command(
    *wanted: str, again: bool = False, upgrade: bool = False, into: Distribution | None = None
) -> str:
    """Return the command that installs something into the environment of this copy.

    Args:
        wanted: Requirements, such as `pytools-hybrid[openai]` or `apsw`.
        again: Whether to replace an installed version.
        upgrade: Whether to install newer versions.
        into: The installed copy; None for the one that runs.
    """
    try:
        copy = into or Distribution.from_name(_NAME)
    except PackageNotFoundError:
        # Only its source is on the path.
        copy = None
    origin: dict[str, Any] = json.loads((copy and copy.read_text("direct_url.json")) or "{}")
    url = urlsplit(str(origin.get("url", "")))
    by_uv = copy is not None and (copy.read_text("INSTALLER") or "").strip() == "uv"
    program = ["uv", "pip"] if by_uv else [sys.executable, "-m", "pip"]
    parts = [*program, "install", *["--python", sys.executable] * by_uv]
    parts += ["--reinstall" if by_uv else "--force-reinstall"] * again + ["--upgrade"] * upgrade
    for requirement in wanted:
        if url.scheme == "file" and requirement.startswith(_NAME):
            # A clone or a wheel: no index needs to have it.
            parts += ["-e"] * bool(origin.get("dir_info", {}).get("editable"))
            parts.append(url2pathname(url.path) + requirement.removeprefix(_NAME))
        else:
            parts.append(requirement)
    return " ".join(part if _PLAIN.fullmatch(part) else f'"{part}"' for part in parts)
