"""The trees of tools: the defaults, and where a path of the index lies in them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from toolscan import DEFAULT_LAYOUTS, RECORD_VERSION, Layout

from pytools_hybrid.errors import SettingsError

DEFAULT_ROOT = Path("tools")
"""The root where none is set: `import` writes there."""

FREEACT_ROOT = Path(".freeact/generated")
"""The root that freeact writes, used where `DEFAULT_ROOT` has no tools and none is set."""

_EXAMPLES_ROOT = Path("examples/tools")

RootsLike = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One tree, or several in order of precedence."""


@dataclass(frozen=True, slots=True)
class Roots:
    """The trees that one index holds, in order of precedence.

    A tool that several of them have is taken from the first. An index knows a tool by its path
    below its tree; where there are several trees, their number and a slash come before it, as in
    `0/mcptools/github/create_issue.py`.

    Attributes:
        paths: The trees, as they were named. None is there twice; none need exist. One may lie
            inside another, for where tools lie is looked up from each anew.
        layouts: Where tools lie in each of them.
    """

    paths: tuple[Path, ...]
    layouts: tuple[Layout, ...] = DEFAULT_LAYOUTS

    @classmethod
    def of(cls, roots: RootsLike, layouts: tuple[Layout, ...] = DEFAULT_LAYOUTS) -> Roots:
        """Take one tree or several; one that is named twice counts where it is named first.

        Args:
            roots: The trees; `Roots` are returned as they are.
            layouts: Where tools lie in each of them.

        Raises:
            SettingsError: There is none.
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
    def full_names(self) -> str:
        """What the index is of: the full paths, links resolved, as `PYTOOLS_DIR` names several."""
        return os.pathsep.join(os.path.realpath(path) for path in self.paths)

    @property
    def reader_version(self) -> str:
        """What makes records from the files of these trees; another reads them all again."""
        return f"{RECORD_VERSION}{self.other_layouts}"

    @property
    def other_layouts(self) -> str:
        """The layouts as text; "" for the default ones."""
        if self.layouts == DEFAULT_LAYOUTS:
            return ""
        return "".join(f" {it.source}={it.pattern}" for it in sorted(self.layouts, key=_source))

    def stored(self, number: int, relative: str) -> str:
        """Return the path that the index has for a path below one of the trees."""
        return relative if len(self.paths) == 1 else f"{number}/{relative}"

    def stored_everywhere(self, relative: Iterable[str]) -> list[str]:
        """Return the paths that the index has for some paths, below whichever tree they are."""
        paths = list(relative)
        return [self.stored(number, path) for number in range(len(self.paths)) for path in paths]

    def locate(self, stored_path: str) -> tuple[Path, str]:
        """Return the tree that a path of the index lies in, and the path below that tree.

        A path that an index of other trees has left lies in the first.
        """
        if len(self) > 1:
            number, _, relative = stored_path.partition("/")
            if number.isdecimal() and int(number) < len(self.paths):
                return self.paths[int(number)], relative
        return self.paths[0], stored_path

    def shown(self, stored_path: str) -> str:
        r"""Return a path of the index as text: posix, below its tree as that was named.

        Bytes of a folder's name that are not UTF-8 appear as `\xNN`.
        """
        root, relative = self.locate(stored_path)
        # Not joined by pathlib, which parses both, for every result of every search.
        above = root.as_posix().rstrip("/")
        path = relative if above == "." else f"{above}/{relative}"
        return os.fsencode(path).decode("utf-8", "backslashreplace")

    def brief(self, stored_path: str) -> str:
        """Return a path of the index as text: below its tree, named where there are several."""
        return stored_path if len(self.paths) == 1 else self.shown(stored_path)


def _source(layout: Layout) -> str:
    return layout.source


def default_roots(layouts: tuple[Layout, ...]) -> tuple[Roots, str]:
    """Return the roots to use when none is set, and a note that says which they are.

    Many a project has a folder `tools` that holds something else: where it has none of the folders
    that tools are in, freeact's comes first.

    Args:
        layouts: Where tools are in a root.

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
        "--root",
        "no tools to search: no --root or PYTOOLS_DIR given, and none of "
        f"{DEFAULT_ROOT}, {FREEACT_ROOT} and {_EXAMPLES_ROOT} exists in {Path.cwd()}",
    )
