"""A sentence on whether a request finds a tool, and a use case that would make it do so."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from pytools_hybrid.index import CapabilitiesError, Capability, parse_capabilities, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from pytools_hybrid.search import Placement
    from pytools_hybrid.serve.http.console._search_page import Asked
    from pytools_hybrid.settings import Settings

# The character DEL, which is allowed in JSON strings but not in TOML.
_DELETE = "\x7f"


def verdict(placement: Placement, asked: Asked, settings: Settings) -> str:
    """Return a sentence on whether an agent that sends the request would see the tool."""
    limit = settings.limit if asked.limit is None else asked.limit
    threshold = settings.threshold if asked.threshold is None else asked.threshold
    if placement.rank is None:
        return "No. The tool is not found."
    told = f"The tool is number {placement.rank}, with a score of {placement.score:.2f}"
    if placement.rank > limit:
        return f"No. {told}, and an agent sees the first {limit}."
    # A threshold may hide a ranked tool; the reasons then mention it.
    return f"{told}." if threshold else f"Yes. {told}."


class UseCase(NamedTuple):
    """How `capabilities.toml` makes a request find a tool.

    Attributes:
        lines: The lines that the file must contain.
        is_there: Whether the file has a table for the tool, so that `lines` is one line of it.
        problem: Why the file is invalid and ignored; empty if it is valid.
    """

    lines: str
    is_there: bool
    problem: str = ""


def use_case(id_: str, query: str, file: Path) -> UseCase:
    """Return the use cases of a tool in the file, with the request added."""
    known: Capability | None = None
    problem = ""
    try:
        known = parse_capabilities(read_text(file), file).entries.get(id_)
    except CapabilitiesError as error:
        problem = str(error)
    cases = [*(known.use_cases if known is not None else ()), " ".join(query.split())]
    texts = ", ".join(json.dumps(it, ensure_ascii=False) for it in dict.fromkeys(cases))
    header = f"[{json.dumps(id_, ensure_ascii=False)}]\n" if known is None else ""
    lines = f"{header}use_cases = [{texts}]".replace(_DELETE, "")
    return UseCase(lines, known is not None, problem)
