"""Whether a request finds a tool, in a sentence, and what would make it find the tool."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


def use_case(id_: str, query: str) -> str:
    """Return the lines of `capabilities.toml` by which a request finds a tool."""
    name, text = (json.dumps(it, ensure_ascii=False) for it in (id_, " ".join(query.split())))
    return f"[{name}]\nuse_cases = [{text}]".replace(_DELETE, "")
