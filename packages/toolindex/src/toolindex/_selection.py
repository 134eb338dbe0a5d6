"""The tools that pass a filter, as a subquery inside a search."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from toolindex._patterns import as_glob, has_wildcard

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from toolindex._filters import ToolFilter

    # A condition in SQL, and the values of its placeholders.
    Condition = tuple[str, tuple[str | int | float, ...]]

_LARGEST_INTEGER = 2**63 - 1

# Each part is computed once per search. Ids without wildcards are looked up; only other patterns
# are matched against every id.
_BY_PATTERN = (
    "(id IN (SELECT value FROM json_each(?)) OR rowid IN (SELECT tool.rowid FROM json_each(?) "
    "AS pattern CROSS JOIN entries AS tool WHERE tool.id GLOB pattern.value))"
)

# Tools with enough observations, by whether they are within the bound.
_BY_SUCCESS = (
    "SELECT tool_id FROM outcomes GROUP BY tool_id "
    "HAVING count(*) >= ? AND (1.0 * sum(success) / count(*) >= ?) = {keeps}"
)
# The median is within a bound if at least half of the values are, so no sorting is needed.
_BY_LATENCY = (
    "SELECT tool_id FROM outcomes WHERE success AND latency_ms IS NOT NULL GROUP BY tool_id "
    "HAVING count(*) >= ? AND (2 * sum(latency_ms <= ?) >= count(*)) = {keeps}"
)


def rowids(where: ToolFilter) -> Condition | None:
    """Return a SELECT of the rowids that a filter allows with its parameters, or None for all."""
    conditions = list(_conditions(where))
    if not conditions:
        return None
    joined = " AND ".join(sql for sql, _ in conditions)
    return (
        f"SELECT rowid FROM entries WHERE {joined}",  # noqa: S608 - constants from below
        tuple(value for _, values in conditions for value in values),
    )


# Strings are bound as JSON, in which SQLite accepts even those that are not valid Unicode.


def _conditions(where: ToolFilter) -> Iterator[Condition]:
    if where.source is not None:
        yield "source = ? ->> '$'", (json.dumps(where.source),)
    if where.categories:
        wanted = json.dumps(sorted(where.categories))
        yield "category IN (SELECT value FROM json_each(?))", (wanted,)
    if where.path_prefix is not None:
        # A range instead of LIKE or GLOB, because it has no special characters, and uses the index.
        # "0" is the character after "/".
        bounds = (where.path_prefix, f"{where.path_prefix}/", f"{where.path_prefix}0")
        yield (
            "(path = ? ->> '$' OR (path >= ? ->> '$' AND path < ? ->> '$'))",
            tuple(map(json.dumps, bounds)),
        )
    if where.include:
        yield _BY_PATTERN, _pattern_values(where.include)
    if where.exclude:
        yield f"NOT {_BY_PATTERN}", _pattern_values(where.exclude)
    if where.min_success_rate is not None:
        yield _judged(where, _BY_SUCCESS, where.min_success_rate)
    if where.max_latency_ms is not None:
        yield _judged(where, _BY_LATENCY, where.max_latency_ms)
    if where.tags:
        yield (
            "(SELECT count(DISTINCT declared.value) FROM json_each(entries.tags) AS declared "
            "WHERE declared.value IN (SELECT value FROM json_each(?))) = ?",
            (json.dumps(sorted(where.tags)), len(where.tags)),
        )


def _judged(where: ToolFilter, tools: str, bound: float) -> Condition:
    values = (min(where.min_observations, _LARGEST_INTEGER), bound)
    if where.unknown == "exclude":
        return f"id IN ({tools.format(keeps=1)})", values
    return f"id NOT IN ({tools.format(keeps=0)})", values


def _pattern_values(patterns: Collection[str]) -> tuple[str, str]:
    names = sorted(pattern for pattern in patterns if not has_wildcard(pattern))
    globs = sorted(
        glob for pattern in patterns if has_wildcard(pattern) and (glob := as_glob(pattern))
    )
    return json.dumps(names), json.dumps(globs)
