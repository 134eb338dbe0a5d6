"""Id patterns, with the same meaning in SQLite and in Python."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

MAX_LENGTH = 10_000
"""The maximum length of a pattern. SQLite allows 50,000 bytes, and no id is nearly as long."""

_STARS = re.compile(r"\*+")
# SQLite ends a pattern at the first of these, or replaces it; no id has any.
_NEVER_IN_IDS = re.compile("[\0\ud800-\udfff]")


def has_wildcard(pattern: str) -> bool:
    """Return whether a pattern has wildcards."""
    return "*" in pattern or "?" in pattern


def as_glob(pattern: str) -> str | None:
    """Return a pattern for SQLite's `GLOB`, or None if no id can match it."""
    if _NEVER_IN_IDS.search(pattern):
        return None
    # `[` would begin a set of characters, and is only literal inside one.
    return _STARS.sub("*", pattern).replace("[", "[[]")


def matches_any(patterns: Collection[str], tool_id: str) -> bool:
    """Return whether an id matches any of some patterns."""
    return tool_id in patterns or any(
        _compiled(pattern).fullmatch(tool_id) for pattern in patterns if has_wildcard(pattern)
    )


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    first, *others = (
        "".join("." if character == "?" else re.escape(character) for character in part)
        for part in _STARS.split(pattern)
    )
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    # The first match of a part is as good as a later one, so backtracking is unnecessary. With it,
    # a few stars in a pattern that nearly matches could take years.
    atoms = "".join(f"(?>.*?{part})" for part in middle)
    return re.compile(f"{first}{atoms}.*{last}", re.DOTALL)
