"""Where tools are in a root: the names of layouts, or patterns of the user's own."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from toolscan import LAYOUTS, Layout, ToolScanError

if TYPE_CHECKING:
    from collections.abc import Iterable

DEFAULT_LAYOUT_NAMES = ("mcptools", "gentools")
DEFAULT_LAYOUTS = tuple(LAYOUTS[name] for name in DEFAULT_LAYOUT_NAMES)


def parsed_layouts(names: Iterable[str]) -> tuple[Layout, ...]:
    """Return layouts by their names, or by `source=pattern`."""
    layouts = [_parsed(name) for name in names]
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
        f"there is no layout {name!r}, only {', '.join(LAYOUTS)} and patterns such as "
        f"scripts=scripts/{{category}}/{{name}}.py{meant}"
    )


def shown_layouts(layouts: tuple[Layout, ...]) -> str:
    """Return a phrase that says where tools are."""
    patterns = " and ".join(_shown(layout) for layout in layouts)
    runs = any(not (it.any_function or it.holds_several) for it in layouts)
    return f"{patterns} with a documented {'run() or run_parsed()' if runs else 'function'}"


def _shown(layout: Layout) -> str:
    return layout.pattern.replace("{category}", "<category>").replace("{name}", "<tool>")
