"""Requests in the usage record, with the tools that were then used successfully."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.jobs.evaluate import EvaluationQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolindex import OutcomeRecord, SearchRecord

# A found tool that is used within this time counts as the right one.
_SECONDS = 600.0


def recorded(
    searches: Iterable[SearchRecord], outcomes: Iterable[OutcomeRecord]
) -> list[EvaluationQuery]:
    """Return the requests whose right tools are known, without duplicates.

    An outcome without a search id belongs to the last search that found its tool in the ten minutes
    before.
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
