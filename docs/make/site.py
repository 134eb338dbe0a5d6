"""Hooks of mkdocs, which make documents of the whole repository into pages of one site.

The documents link to files by their paths in the repository. The site has the same tree, without
the folder `docs`, so links only have to be made relative to the page's place. Files that are not
documents are copied to the site if a page links to them. Pages load nothing from other sites.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

REPOSITORY = Path(__file__).parents[2]
# `changes` and `release` contain only the sources of changelogs.
_NO_DOCUMENTS = {
    "__pycache__", "build", "changes", "dist", "node_modules", "release", "site", "tests",
}  # fmt: skip
_FENCE = re.compile(r"^( *)(```+)(\w*).*$")
_LINK = re.compile(r"(\]\()([^)\s#]+)([^)]*\))")
_CELL = re.compile(r"<td.*?</td>", re.S)
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|link rel="(?:stylesheet|preconnect)")[^>]*//[^>]*>"""
)


def documents(repository: Path = REPOSITORY) -> Iterator[str]:
    """Return the path of every document in the repository."""
    for folder, folders, names in os.walk(repository):
        folders[:] = sorted(
            it for it in folders if not it.startswith(".") and it not in _NO_DOCUMENTS
        )
        for name in sorted(names):
            if name.endswith(".md"):
                yield Path(folder, name).relative_to(repository).as_posix()


def links(markdown: str) -> Iterator[str]:
    """Return the targets within the repository that a document links to, without anchors."""
    found: list[str] = []
    _outside_of_code(markdown, lambda line: _LINK.sub(lambda it: found.append(it[2]) or "", line))
    yield from (target for target in found if "://" not in target)


def target_in_repository(target: str, document: str, repository: Path = REPOSITORY) -> str:
    """Return the path that a document links to; for a folder, that of its document."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(document), target))
    return f"{path}/README.md" if (repository / path).is_dir() else path


def place_on_site(path: str) -> str:
    """Return the path on the site of a file of the repository."""
    return path.removeprefix("docs/")


def as_page(markdown: str, document: str) -> str:
    """Return a document for mkdocs, with links for the site and plain fences."""
    folder = posixpath.dirname(place_on_site(document)) or "."

    def relinked(link: re.Match[str]) -> str:
        if "://" in link[2]:
            return link[0]
        place = place_on_site(target_in_repository(link[2], document))
        return f"{link[1]}{posixpath.relpath(place, folder)}{link[3]}"

    return _outside_of_code(markdown, lambda line: _LINK.sub(relinked, line))


def _outside_of_code(markdown: str, change: Callable[[str], str]) -> str:
    fence = ""
    lines = []
    for line in markdown.splitlines(keepends=True):
        found = _FENCE.match(line.rstrip("\n"))
        if found is not None and (not fence or found[2] == fence):
            # The words after the language are for tests.
            lines.append(f"{found[1]}{found[2]}{'' if fence else found[3]}\n")
            fence = "" if fence else found[2]
        else:
            lines.append(line if fence else change(line))
    return "".join(lines)


def _expanded(nav: Any, places: list[str], taken: set[str]) -> Any:  # noqa: ANN401 - nested
    """Replace `folder/*` in the navigation with the other pages of the folder."""
    if isinstance(nav, dict):
        return {title: _expanded(below, places, taken) for title, below in nav.items()}
    if not isinstance(nav, list):
        return nav
    given: list[Any] = []
    for each in nav:
        if isinstance(each, str) and each.endswith("/*"):
            prefix = each.removesuffix("*")
            given += [it for it in places if it.startswith(prefix) and it not in taken]
        else:
            given.append(_expanded(each, places, taken))
    return given


def _named(nav: Any) -> Iterator[str]:  # noqa: ANN401 - nested
    if isinstance(nav, str):
        yield nav
    else:
        for each in nav.values() if isinstance(nav, dict) else nav:
            yield from _named(each)


def on_config(config: MkDocsConfig) -> None:
    """Fill in the navigation."""
    places = [place_on_site(document) for document in documents()]
    config.nav = _expanded(config.nav, places, set(_named(config.nav)))


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the documents outside of `docs`, and the files that documents link to."""
    from mkdocs.structure.files import File

    wanted = dict.fromkeys(documents())
    for document in list(wanted):
        text = (REPOSITORY / document).read_text("utf-8")
        wanted |= dict.fromkeys(target_in_repository(it, document) for it in links(text))
    for path in wanted:
        place = place_on_site(path)
        # For a missing file, mkdocs reports an error that names the page.
        if files.get_file_from_path(place) is None and (REPOSITORY / path).is_file():
            files.append(File.generated(config, place, abs_src_path=str(REPOSITORY / path)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make links relative to the page's place on the site."""
    source = Path(page.file.abs_src_path or "").relative_to(REPOSITORY).as_posix()
    return as_page(markdown, source)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    r"""Remove the backslash of `\|` in a table's code, which this Markdown would show."""
    return _CELL.sub(lambda cell: cell[0].replace(r"\|", "|"), html)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that would load something from another site."""
    from mkdocs.exceptions import PluginError

    fetched = _FETCHED.search(output)
    if fetched is not None:
        raise PluginError(f"{page.file.src_uri} has its readers fetch {fetched[0]}")
    return output
