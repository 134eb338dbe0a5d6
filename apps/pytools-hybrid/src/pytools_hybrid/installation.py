"""How this copy was installed, and the commands that work there.

Remedies name a command that installs a missing package. It depends on what installed this copy (uv
as a tool, uv into an environment, pip) and from where (an index, a clone, a wheel).
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit
from urllib.request import url2pathname

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Installation", "install_command"]

_NAME = "pytools-hybrid"
_RECEIPT = "uv-receipt.toml"
# The keys of uv's receipt for a requirement that was a folder or a file.
_FOLDERS = ("directory", "editable", "path")
_PACKAGES = "packages/tool*/pyproject.toml"
_EXTRAS = {"toolembed-accurate": "accurate", "toolindex-postgres": "postgres"}
_OWN = re.compile(rf"{_NAME}(?:\[(?P<extras>[^\]]*)\])?")
_PLAIN = re.compile(r"[\w@%+=:,./\\-]+")


def install_command(*wanted: str, again: bool = False, upgrade: bool = False) -> str:
    """Return the command that installs something into the environment of this copy.

    Args:
        wanted: Requirements, such as `pytools-hybrid[openai]` or `apsw`.
        again: Whether to replace an installed version.
        upgrade: Whether to install newer versions.
    """
    return Installation.current().command(*wanted, again=again, upgrade=upgrade)


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """How a copy of pytools-hybrid was installed.

    Attributes:
        python: Its interpreter.
        source: What it was installed from: the name on an index, or the path of a project or wheel.
        is_editable: Whether changes to the project's files take effect at once.
        by_uv: Whether uv installed it; else the environment has pip.
        receipt: The requirements of a tool that uv installed; None elsewhere.
    """

    python: str
    source: str = _NAME
    is_editable: bool = False
    by_uv: bool = False
    receipt: tuple[str, ...] | None = None

    @classmethod
    def current(cls) -> Installation:
        """Return how the running copy was installed."""
        try:
            distribution = Distribution.from_name(_NAME)
        except PackageNotFoundError:
            # Only its source is on the path.
            return cls(python=sys.executable)
        return cls.of(distribution, prefix=Path(sys.prefix), python=sys.executable)

    @classmethod
    def of(cls, distribution: Distribution, *, prefix: Path, python: str) -> Installation:
        """Return how a distribution was installed."""
        origin = _object(distribution.read_text("direct_url.json"))
        url = urlsplit(str(origin.get("url", "")))
        return cls(
            python=python,
            source=url2pathname(url.path) if url.scheme == "file" else _NAME,
            is_editable=_dict(origin.get("dir_info")).get("editable") is True,
            by_uv=(distribution.read_text("INSTALLER") or "").strip() == "uv",
            receipt=_receipt(prefix / _RECEIPT),
        )

    @property
    def _is_clone(self) -> bool:
        return self.source != _NAME and Path(self.source).is_dir()

    def command(self, *wanted: str, again: bool = False, upgrade: bool = False) -> str:
        """Return the command that installs requirements here; see `install_command`."""
        if upgrade and self._is_clone:
            # A clone's version is that of its files.
            updated = _line(["git", "-C", self.source, "pull"])
            return f"{updated} && {self.command(*wanted, again=True)}"
        if self.receipt is not None:
            return self._as_tool(wanted, again=again or upgrade)
        replaced = "--reinstall" if self.by_uv else "--force-reinstall"
        flags = [*[replaced] * again, *["--upgrade"] * upgrade]
        ours = [it for it in wanted if _OWN.fullmatch(it)]
        editable = ["-e"] if self.is_editable and ours else []
        others = [it for it in wanted if it not in ours]
        program = (
            ["uv", "pip", "install", "--python", self.python]
            if self.by_uv
            else [self.python, "-m", "pip", "install"]
        )
        beside = [] if self.by_uv else self._siblings(ours, again=again)
        sources = map(self._from_source, ours)
        return _line([*program, *flags, *others, *beside, *editable, *sources])

    def _siblings(self, ours: Sequence[str], *, again: bool) -> list[str]:
        """Return the packages of a clone that pip would look for on an index."""
        if not ours or not self._is_clone:
            return []
        found = sorted(file.parent for file in Path(self.source).parents[1].glob(_PACKAGES))
        wanted = {name for name, extra in _EXTRAS.items() if any(extra in it for it in ours)}
        return [
            str(folder)
            for folder in found
            if folder.name in wanted or (again and folder.name not in _EXTRAS)
        ]

    def _as_tool(self, wanted: Sequence[str], *, again: bool) -> str:
        # uv replaces a tool's environment, so everything that was in it is named again.
        made_of = self.receipt or ()
        extras = {
            extra: None
            for it in (*made_of, *wanted)
            if (own := _OWN.fullmatch(it)) and own["extras"]
            for extra in own["extras"].split(",")
        }
        ours = f"{_NAME}[{','.join(extras)}]" if extras else _NAME
        beside = (*made_of, *(() if again else wanted))
        others = [it for it in dict.fromkeys(beside) if not _OWN.fullmatch(it)]
        flags = [*["--reinstall"] * again, *(part for it in others for part in ("--with", it))]
        return _line(["uv", "tool", "install", *flags, self._from_source(ours)])

    def _from_source(self, requirement: str) -> str:
        return self.source + requirement.removeprefix(_NAME)


def _receipt(file: Path) -> tuple[str, ...] | None:
    try:
        content = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    found = _dict(content.get("tool")).get("requirements")
    if not isinstance(found, list):
        return ()
    wanted = map(_dict, cast("list[object]", found))
    return tuple(_requirement(it) for it in wanted if "name" in it)


def _requirement(entry: dict[str, Any]) -> str:
    """Return an entry of a receipt as an argument of `--with`; ours by name and extras."""
    extras = f"[{','.join(map(str, entry['extras']))}]" if entry.get("extras") else ""
    named = f"{entry['name']}{extras}"
    if entry["name"] == _NAME:
        return named
    folder = next((entry[key] for key in _FOLDERS if isinstance(entry.get(key), str)), None)
    if folder is not None:
        return f"{folder}{extras}"
    for key, prefix in (("git", "git+"), ("url", "")):
        if isinstance(entry.get(key), str):
            return f"{named} @ {prefix}{entry[key]}"
    return f"{named}{entry.get('specifier', '')}"


def _object(text: str | None) -> dict[str, Any]:
    try:
        return _dict(json.loads(text or "{}"))
    except ValueError:
        return {}


def _dict(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _line(parts: Iterable[str]) -> str:
    return " ".join(part if _PLAIN.fullmatch(part) else f'"{part}"' for part in parts)
