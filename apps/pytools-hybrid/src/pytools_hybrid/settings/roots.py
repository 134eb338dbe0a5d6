"""The trees of tools: where they are, where tools are in them, and what a wrong one meant."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from toolscan import LAYOUTS, Layout, ToolRecord, ToolScanError, find_tools, scan

from pytools_hybrid.errors import SettingsError, refusal

DEFAULT_ROOT = Path("tools")
"""The root if none is set, to which `import` writes."""

FREEACT_ROOT = Path(".freeact/generated")
"""The root that freeact writes to, used if none is set and `DEFAULT_ROOT` has no tools."""

DEFAULT_LAYOUT_NAMES = ("mcptools", "gentools")

RootsLike = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""One tree, or several in order of precedence."""

_EXAMPLES_ROOT = Path("examples/tools")
_DEFAULT_LAYOUTS = tuple(LAYOUTS[name] for name in DEFAULT_LAYOUT_NAMES)
# Otherwise, naming a home folder, for example, would take a minute.
_MAX_ENTRIES = 200


def parsed_layouts(names: Iterable[str]) -> tuple[Layout, ...]:
    """Return layouts by their names, or by `source=pattern`."""
    layouts = [_parsed(name) for name in names]
    if not layouts:
        raise ValueError("it is empty; leave it out, or name layouts")
    sources = [layout.source for layout in layouts]
    if twice := [source for source in sources if sources.count(source) > 1]:
        raise ValueError(f"{twice[0]!r} is given twice: each source has only one layout")
    return tuple(layouts)


def _parsed(name: str) -> Layout:
    source, is_pattern, pattern = name.partition("=")
    if is_pattern:
        try:
            return Layout(source.strip(), pattern.strip(), any_function=True)
        except ToolScanError as error:
            raise ValueError(str(error)) from None
    if name in LAYOUTS:
        return LAYOUTS[name]
    near = get_close_matches(name, LAYOUTS, n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(
        f"unknown layout {name!r}; use {', '.join(LAYOUTS)} or patterns such as "
        f"scripts=scripts/{{category}}/{{name}}.py{meant}"
    )


def shown_layouts(layouts: tuple[Layout, ...]) -> str:
    """Return a phrase that says where tools are."""
    patterns = " and ".join(
        layout.pattern.replace("{category}", "<category>").replace("{name}", "<tool>")
        for layout in layouts
    )
    runs = any(not (it.any_function or it.holds_several) for it in layouts)
    return f"{patterns} with a documented {'run() or run_parsed()' if runs else 'function'}"


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
    layouts: tuple[Layout, ...] = _DEFAULT_LAYOUTS

    @classmethod
    def of(cls, roots: RootsLike, layouts: tuple[Layout, ...] = _DEFAULT_LAYOUTS) -> Roots:
        """Accept one tree or several, or `Roots`; duplicates count at their first place.

        Raises:
            SettingsError: There are no trees.
        """
        if isinstance(roots, Roots):
            return roots
        if isinstance(roots, str | os.PathLike):
            roots = (roots,)
        first: dict[str, Path] = {}
        for path in map(Path, roots):
            first.setdefault(os.path.realpath(path), path)
        if not first:
            raise SettingsError("--root", "is empty; give at least one folder")
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
        if self.layouts == _DEFAULT_LAYOUTS:
            return ""
        ordered = sorted(self.layouts, key=lambda layout: layout.source)
        return "".join(f" {layout.source}={layout.pattern}" for layout in ordered)

    def stored_path(self, number: int, relative: str) -> str:
        """Return the path in the index for a path relative to one of the trees."""
        return relative if len(self.paths) == 1 else f"{number}/{relative}"

    def stored_everywhere(self, relative: Iterable[str]) -> list[str]:
        """Return the paths in the index for some paths, each of them in every tree."""
        paths = list(relative)
        return [self.stored_path(number, path) for number in range(len(self)) for path in paths]

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


def is_folder(root: Path) -> bool:
    """Return whether a root exists.

    Raises:
        SettingsError: It is a file, or cannot be accessed.
    """
    try:
        mode = root.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise SettingsError("--root", f"{root}: {refusal(error)}") from error
    if not stat.S_ISDIR(mode):
        raise SettingsError("--root", f"{root} is a file; give the folder that contains the tools")
    return True


def check_roots(roots: Iterable[Path], name: str) -> None:
    """Check that roots exist and are folders; `name` says where they were named."""
    for root in roots:
        if not is_folder(root):
            raise SettingsError(name, missing(root))


def missing(root: Path) -> str:
    """Return a message that a root does not exist, with the one that was probably meant."""
    for wrong in (root, *root.parents):
        if wrong.parent.is_dir():
            with suppress(OSError):
                entries = islice(wrong.parent.iterdir(), _MAX_ENTRIES)
                names = [entry.name for entry in entries if entry.is_dir()]
                for near in get_close_matches(wrong.name, names, n=1):
                    meant = wrong.parent / near / root.relative_to(wrong)
                    return f"{root} does not exist; did you mean {meant}?"
            break
    return f"{root} does not exist; give the folder that contains the tools"


def no_tools(roots: Roots) -> str:
    """Return a message that says where tools were expected, and which layout has some."""
    if absent := [root for root in roots if not os.path.exists(root)]:  # noqa: PTH110 - no errors
        return missing(absent[0])
    looked = f"no tools in {roots}: looked for {shown_layouts(roots.layouts)}"
    for root in roots:
        fitting = fitting_layouts(root)
        if set(filter(None, fitting.split(","))) - {it.source for it in roots.layouts}:
            return f"{looked}; {root} has tools in another layout: set PYTOOLS_LAYOUTS={fitting}"
    return looked


def without_tools(roots: Roots) -> str | None:
    """Return that message if no file could be a tool, judging by its name; otherwise None."""
    tops = [top for layout in roots.layouts if (top := layout.parts[0]).pattern is None]
    for root in roots:
        if any(os.path.exists(root / top.text) for top in tops):  # noqa: PTH110 - no errors
            return None
        with suppress(ToolScanError):
            if find_tools(root, layouts=roots.layouts):
                return None
    return no_tools(roots)


def fitting_layouts(root: Path) -> str:
    """Return the layouts in which a root has tools, by name and separated by commas."""
    fitting: list[str] = []
    for name, layout in LAYOUTS.items():
        with suppress(ToolScanError):
            paths = list(islice(find_tools(root, layouts=[layout]).values(), _MAX_ENTRIES))
            if scan(root, layouts=[layout], within=paths, definitions=False).records:
                fitting.append(name)
    return ",".join(fitting)
