"""Checking what is installed: Python, SQLite, the vector extension, and optional packages."""

from __future__ import annotations

import platform
import sys
from contextlib import closing
from importlib.util import find_spec
from typing import TYPE_CHECKING

from toolembed.providers import current_name

from pytools_hybrid.installation import install_command
from pytools_hybrid.reports.doctor._embedder import remedy_of
from pytools_hybrid.reports.doctor._finding import Verdict, failed, fine, warning
from pytools_hybrid.settings import why_unusable

if TYPE_CHECKING:
    from collections.abc import Callable

    import apsw


_OLDEST = (3, 11)
_OURS = ("pytools-hybrid", "toolscan", "toolindex", "toolrank-hybrid", "toolwatch")
# The systems in toolindex's requirements; `_has_wheel` excludes musl, for which there is no marker.
_WHEELS = {
    ("linux", "x86_64"),
    ("linux", "aarch64"),
    ("darwin", "arm64"),
    ("darwin", "x86_64"),
    ("win32", "AMD64"),
}
_GENERATOR = "datamodel_code_generator"
_VECTORS = {1: "[1, 0, 0]", 2: "[0, 1, 0]", 3: "[0, 0, 1]"}


def python_version(found: tuple[int, ...] = sys.version_info[:3]) -> Verdict:
    """Check the interpreter, and report it and the versions of our packages."""
    from importlib.metadata import version

    shown = ".".join(map(str, found))
    if found < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        return failed(
            f"{shown} at {sys.executable} is older than {oldest}",
            f"uv python install {oldest}",
        )
    versions = ", ".join(f"{name} {version(name)}" for name in _OURS)
    return fine(f"{shown} at {sys.executable}, {versions}")


def full_text_search(connect: Callable[[str], apsw.Connection] | None = None) -> Verdict:
    """Check that SQLite's full-text search finds an inflected word."""
    import apsw

    try:
        with closing((connect or apsw.Connection)(":memory:")) as connection:
            connection.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize='porter')")
            connection.execute("INSERT INTO words VALUES ('merging documents')")
            sql = "SELECT text FROM words WHERE words MATCH 'merge'"
            found = connection.execute(sql).fetchall()
    except apsw.Error as error:
        return failed(f"full-text search (FTS5) does not work ({error})", _reinstalling("apsw"))
    if not found:
        return failed("full-text search (FTS5) finds no words", _reinstalling("apsw"))
    return fine(f"{apsw.sqlite_lib_version()} (apsw's own), with full-text search (FTS5)")


def vector_search() -> Verdict:
    """Check that the vector extension finds the nearest of some vectors."""
    import apsw
    from toolindex import ToolIndex

    from pytools_hybrid.index import has_numpy

    try:
        with closing(apsw.Connection(":memory:")) as connection:
            if problem := ToolIndex.load_sqlite_vec(connection):
                packages = ["sqlite-vec"] if _has_wheel() else []
                what = (
                    f"cannot be loaded ({problem})"
                    if packages
                    else "is not published for this system"
                )
                if has_numpy():
                    remedy = _reinstalling(*packages) if packages else None
                    return warning(f"{what}; numpy searches vectors instead", remedy)
                return failed(
                    f"{what}, and numpy cannot be imported: searches use words alone",
                    _reinstalling(*packages, "numpy"),
                )
            connection.execute("CREATE VIRTUAL TABLE near USING vec0(vector float[3])")
            connection.executemany(
                "INSERT INTO near (rowid, vector) VALUES (?, ?)", _VECTORS.items()
            )
            nearest = connection.execute(
                "SELECT rowid FROM near WHERE vector MATCH '[0.1, 0.9, 0]' AND k = 1"
            ).get
            version = connection.execute("SELECT vec_version()").get
    except apsw.Error as error:
        return failed(f"vectors cannot be searched ({error})", _reinstalling("sqlite-vec"))
    if nearest != 2:
        return failed(
            "a search among three vectors found the wrong one", _reinstalling("sqlite-vec")
        )
    return fine(f"{version}, finds the nearest of three vectors")


def look_at_reranking(model: str) -> Verdict:
    """Check that the language model can be loaded; a call might cost money."""
    from toolrank import ToolRankError
    from toolrank.rerank import LLMReranker

    try:
        LLMReranker(current_name(model))
    except ToolRankError as error:
        problem = why_unusable(model, error)
        return failed(f"{model} cannot be used ({problem})", remedy_of(problem, model=model))
    return fine(f"{model} can be loaded; it was not called")


def look_at_importing(generator: str = _GENERATOR) -> Verdict:
    """Check that MCP servers can be imported."""
    if find_spec(generator) is None:
        return fine(
            "not installed; only `pytools-hybrid import` needs it: "
            + install_command("pytools-hybrid[import]")
        )
    return fine("MCP servers can be imported")


def _has_wheel() -> bool:
    """Return whether sqlite-vec has a wheel for this system; it is only published as wheels."""
    is_musl = sys.platform == "linux" and platform.libc_ver()[0] != "glibc"
    return (sys.platform, platform.machine()) in _WHEELS and not is_musl


def _reinstalling(*packages: str) -> str:
    return install_command(*packages, again=True)
