"""Whether a request finds a tool, in a sentence, and what would make it find the tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from pytools_hybrid.index import CapabilitiesError, Capability, parse_capabilities, read_text

if TYPE_CHECKING:
    from pathlib import Path

    from pytools_hybrid.search import Placement
    from pytools_hybrid.serve.http.console._search_page import Asked
    from pytools_hybrid.settings import Settings

# TOML forbids it and JSON does not.
_DELETE = "\x7f"


def verdict(placement: Placement, asked: Asked, settings: Settings) -> str:
    """Return whether an agent that sends a request would see a tool."""
    limit = settings.limit if asked.limit is None else asked.limit
    threshold = settings.threshold if asked.threshold is None else asked.threshold
    if placement.rank is None:
        return "No. It is not found."
    told = f"It is number {placement.rank}, with a score of {placement.score:.2f}"
    if placement.rank > limit:
        return f"No. {told}, and an agent is shown the first {limit}."
    # A threshold may hide a tool that has a place; the reasons then mention it.
    return f"{told}." if threshold else f"Yes. {told}."


class UseCase(NamedTuple):
    """How `capabilities.toml` makes a request find a tool.

    Attributes:
        lines: What it has to contain, beside which it may have more.
        is_there: Whether there is a table of that tool, so that one line of it is meant.
        problem: What is wrong with the file, whose content is ignored for that; empty if nothing.
    """

    lines: str
    is_there: bool
    problem: str = ""


def use_case(id_: str, query: str, file: Path) -> UseCase:
    """Return how a request and what the file has already find a tool."""
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
