"""Requests of the usage record, with the tools that were used after them and worked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.jobs.evaluate import EvaluationQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolindex import OutcomeRecord, SearchRecord

__all__ = ["recorded"]

# A call that follows within this time, of a tool that was found, is what the search was for.
_SECONDS = 600.0


def recorded(
    searches: Iterable[SearchRecord], outcomes: Iterable[OutcomeRecord]
) -> list[EvaluationQuery]:
    """Return the requests whose answer is known, each once.

    Args:
        searches: What was searched, oldest first.
        outcomes: What came of using tools; one that names no search belongs to the last one that
            found its tool, up to ten minutes before.
    """
    asked = list(searches)
    by_id = {search.id: search for search in asked}
    answers: dict[str, dict[str, None]] = {}
    for outcome in outcomes:
        if not outcome.success:
            continue
        search = by_id.get(outcome.search_id or "") or next(
            (
                it
                for it in reversed(asked)
                if 0 <= outcome.at - it.at <= _SECONDS and outcome.tool_id in it.results
            ),
            None,
        )
        if search is not None and search.query.strip():
            answers.setdefault(search.query.strip(), {})[outcome.tool_id] = None
    return [
        EvaluationQuery(id=f"r{number}", text=text, gold=tuple(gold))
        for number, (text, gold) in enumerate(answers.items(), 1)
    ]
