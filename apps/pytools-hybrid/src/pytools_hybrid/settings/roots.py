"""The trees of tools: the defaults, and how paths in the index map to them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from toolscan import Layout, ToolRecord

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.settings._layouts import DEFAULT_LAYOUTS

DEFAULT_ROOT = Path("tools")
"""The root if none is set, to which `import` writes."""

FREEACT_ROOT = Path(".freeact/generated")
"""The root that freeact writes to, used if none is set and `DEFAULT_ROOT` has no tools."""

_EXAMPLES_ROOT = Path("examples/tools")

RootsLike = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One tree, or several in order of precedence."""


@dataclass(frozen=True, slots=True)
class Roots:
    """The trees that one index holds, in order of precedence.

    A tool that several trees have is taken from the first. The index identifies a tool's file by
    its path relative to its tree, which several trees prefix with their number, as in
    `0/mcptools/github/create_issue.py`.

    Attributes:
        paths: The trees, as they were named, each of them once. They need not exist, and one may be
            inside another, because each is scanned separately.
        layouts: Where the tools are in each tree.
    """

    paths: tuple[Path, ...]
    layouts: tuple[Layout, ...] = DEFAULT_LAYOUTS

    @classmethod
    def of(cls, roots: RootsLike, layouts: tuple[Layout, ...] = DEFAULT_LAYOUTS) -> Roots:
        """Accept one tree or several, or `Roots`; duplicates count at their first place.

        Raises:
            SettingsError: There are no trees.
        """
        if isinstance(roots, Roots):
            return roots
        if isinstance(roots, str | os.PathLike):
            return cls((Path(roots),), layouts)
        paths = [Path(root) for root in roots]
        if not paths:
            raise SettingsError("--root", "is empty; give at least one folder")
        if len(paths) == 1:
            return cls((paths[0],), layouts)
        first: dict[str, Path] = {}
        for path in paths:
            first.setdefault(os.path.realpath(path), path)
        return cls(tuple(first.values()), layouts)

    def __str__(self) -> str:
        return ", ".join(map(str, self.paths))

    def __len__(self) -> int:
        return len(self.paths)

    def __iter__(self) -> Iterator[Path]:
        return iter(self.paths)

    @property
    def identity(self) -> str:
        """The trees as the index stores them: full paths without links, with PATH's separator."""
        return os.pathsep.join(os.path.realpath(path) for path in self.paths)

    @property
    def tree_name(self) -> str:
        """The default name of these trees in a shared index, derived from the checkout's folder."""
        return "+".join(_name_in_checkout(Path(os.path.realpath(path))) for path in self.paths)

    @property
    def reader_version(self) -> str:
        """The version of the code that reads the files; a different one reads all files again."""
        return f"{ToolRecord.VERSION}{self.layout_key}"

    @property
    def layout_key(self) -> str:
        """The layouts as text; empty for the default ones."""
        if self.layouts == DEFAULT_LAYOUTS:
            return ""
        return "".join(f" {it.source}={it.pattern}" for it in sorted(self.layouts, key=_source))

    def stored_path(self, number: int, relative: str) -> str:
        """Return the path in the index for a path relative to one of the trees."""
        return relative if len(self.paths) == 1 else f"{number}/{relative}"

    def stored_everywhere(self, relative: Iterable[str]) -> list[str]:
        """Return the paths in the index for some paths, each of them in every tree."""
        paths = list(relative)
        return [
            self.stored_path(number, path) for number in range(len(self.paths)) for path in paths
        ]

    def resolve(self, stored: str) -> tuple[Path, str]:
        """Return the tree of a path in the index, and the path relative to that tree.

        A path left over from an index of other trees counts as one of the first tree.
        """
        if len(self) > 1:
            number, _, relative = stored.partition("/")
            if number.isdecimal() and int(number) < len(self.paths):
                return self.paths[int(number)], relative
        return self.paths[0], stored

    def display_path(self, stored: str) -> str:
        r"""Return a path in the index as posix text, below its tree as that was named.

        Bytes that are not UTF-8 appear as `\xNN`.
        """
        root, relative = self.resolve(stored)
        # Not joined by pathlib, which would parse both for every result of every search.
        above = root.as_posix().rstrip("/")
        path = relative if above == "." else f"{above}/{relative}"
        return os.fsencode(path).decode("utf-8", "backslashreplace")

    def short_path(self, stored: str) -> str:
        """Return a path in the index as text, with its tree only if there are several."""
        return stored if len(self.paths) == 1 else self.display_path(stored)


def _name_in_checkout(root: Path) -> str:
    checkouts = (it for it in (root, *root.parents) if os.path.exists(it / ".git"))  # noqa: PTH110
    top = next(checkouts, root.parent)
    return (Path(top.name) / root.relative_to(top)).as_posix()


def _source(layout: Layout) -> str:
    return layout.source


def default_roots(layouts: tuple[Layout, ...]) -> tuple[Roots, str]:
    """Return the root to use if none is set, and a note that says which it is.

    Many projects have a folder `tools` for something else: if it has none of the folders that tools
    belong in, freeact's root comes first.

    Raises:
        SettingsError: No default exists.
    """
    tops = (layout.parts[0] for layout in layouts)
    has_tools = any(top.pattern or Path(DEFAULT_ROOT, top.text).exists() for top in tops)
    first, second = (DEFAULT_ROOT, FREEACT_ROOT) if has_tools else (FREEACT_ROOT, DEFAULT_ROOT)
    for root in (first, second, _EXAMPLES_ROOT):
        if root.is_dir():
            what = "the example tools in " if root == _EXAMPLES_ROOT else ""
            return Roots.of(root, layouts), f"using {what}{root} (no --root or PYTOOLS_DIR given)"
    raise SettingsError(
        "--root / PYTOOLS_DIR",
        f"give the folder that contains the tools: there is no {DEFAULT_ROOT}, {FREEACT_ROOT} or "
        f"{_EXAMPLES_ROOT} in {Path.cwd()}",
    )
