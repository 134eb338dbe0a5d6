"""Printing results: as a table, plain lines, JSON, ids, or Python for a prompt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import typer

from pytools_hybrid.terminal import is_terminal, print_json, print_rich, printable, say

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.console import RenderableType
    from rich.text import Text

    from pytools_hybrid.search import FoundTool, RankExplanation, SearchResponse
    from pytools_hybrid.settings import Roots

_BAR = 8
_WIDE = 60
_TERMS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a search, with further details to print.

    Attributes:
        query: The query as typed.
        terms: By id, the query's terms that the tool contains, each with its part of the score;
            None without `--explain`.
        placement: The rank of the tool of `--why`; None without it.
        stubs: Import line and signature by id, only for Python.
    """

    query: str
    response: SearchResponse
    terms: Mapping[str, Mapping[str, float]] | None = None
    placement: RankExplanation | None = None
    stubs: Mapping[str, str] = field(default_factory=dict[str, str])


def print_answer(answer: Answer, roots: Roots, output: str) -> None:
    """Print the answer to a search on stdout, and notes on stderr."""
    for note in answer.response.notes:
        say(note)
    if output == "json":
        print_json([_as_json(answer, roots)])
    elif output == "ids":
        for found in answer.response.tools:
            typer.echo(printable(found.id))
    elif output == "python":
        typer.echo("\n\n".join(_as_python(answer)))
    elif is_terminal():
        print_rich(_as_tables(answer, roots))
    else:
        for line in _as_lines(answer, roots):
            typer.echo(printable(line))


def _as_json(answer: Answer, roots: Roots) -> dict[str, Any]:
    from pytools_hybrid.serve.operations import tool_results

    response = answer.response
    results = zip(tool_results(response, roots), response.tools, strict=True)
    shown: dict[str, Any] = {
        "query": answer.query,
        "model": response.model,
        "notes": list(response.notes),
        "tools": [
            result.model_dump(exclude_unset=True)
            | {
                "summary": found.entry.summary,
                "tags": list(found.entry.tags),
                "duplicates": list(found.duplicates),
                "also": list(found.also),
            }
            | (_explained(found, answer.terms) if answer.terms is not None else {})
            for result, found in results
        ],
    }
    if answer.placement is not None:
        shown["why"] = answer.placement.as_dict()
    return shown


def _explained(found: FoundTool, terms: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    from dataclasses import asdict

    from pytools_hybrid.search import breakdown, reason

    return {
        "reason": reason(found),
        "channels": {name: asdict(score) for name, score in breakdown(found).items()},
        "terms": {
            term: round(score, 6) for term, score in terms.get(str(found.entry.id), {}).items()
        },
    }


def _as_python(answer: Answer) -> Iterator[str]:
    for found in answer.response.tools:
        stub = answer.stubs.get(found.id) or f"# {found.signature}"
        yield f"# {found.confidence:.2f} confidence: {printable(found.id)}\n{stub.rstrip()}"


def _as_lines(answer: Answer, roots: Roots) -> Iterator[str]:
    for found in answer.response.tools:
        yield f"{found.score:.2f}  {found.entry.id}  {found.match_type}"
        yield f"      {found.entry.summary}"
        yield from (f"      {line}" for line in _equal(found))
        yield f"      {roots.shown(found.entry.path)}"
        if answer.terms is not None:
            yield from (f"      {line}" for line in _explanation(found, answer.terms))
    if answer.placement is not None:
        yield from answer.placement.lines()


def _equal(found: FoundTool) -> Iterator[str]:
    if found.duplicates:
        yield f"the same as {', '.join(found.duplicates)}"
    if found.also:
        yield f"also {', '.join(found.also)}"


def _explanation(found: FoundTool, terms: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    from pytools_hybrid.search import breakdown, reason

    yield reason(found)
    for name, score in breakdown(found).items():
        line = f"{name:<7}#{score.rank:<4}{score.score:>8.3f}  ({score.contribution:+.3f})"
        matched = terms.get(str(found.entry.id)) if name != "vector" else None
        if matched:
            line += f"  {_listed(matched)}"
        yield line
    yield f"confidence {found.confidence:.2f}"


def _listed(matched: Mapping[str, float]) -> str:
    shown = [f"{term} {score:.1f}" for term, score in list(matched.items())[:_TERMS]]
    more = len(matched) - len(shown)
    return ", ".join([*shown, f"… {more} more"] if more > 0 else shown)


def _as_tables(answer: Answer, roots: Roots) -> Iterator[RenderableType]:
    from rich.table import Table
    from rich.text import Text

    if answer.response.tools:
        table = Table(
            box=None,
            pad_edge=False,
            padding=(0, 2, 1 if answer.terms is not None else 0, 0),
            show_header=False,
        )
        table.add_column(justify="right", style="dim")
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for place, found in enumerate(answer.response.tools, start=1):
            table.add_row(str(place), _score(found), _tool(found, roots, answer))
        yield table
    if answer.placement is not None:
        yield Text("\n".join(map(printable, answer.placement.lines())))


def _score(found: FoundTool) -> Text:
    import shutil
    import sys

    from rich.text import Text
    from toolrank import RECOMMENDED_CONFIDENCE

    score = found.score
    style = "green" if found.confidence >= RECOMMENDED_CONFIDENCE else "yellow"
    text = Text(f"{score:.2f}", style=style)
    if shutil.get_terminal_size().columns >= _WIDE:
        line = "━" if sys.stdout.encoding.lower().startswith("utf") else "="
        filled = round(score * _BAR)
        text.append(f" {line * filled}{' ' * (_BAR - filled)}", style=style)
    return text


def _tool(found: FoundTool, roots: Roots, answer: Answer) -> RenderableType:
    from rich.text import Text

    id_, entry = found.entry.id, found.entry
    text = Text.assemble(
        (printable(f"{id_.source}:{id_.category}:"), "dim"),
        (printable(id_.name), "bold cyan"),
        (f"  {found.match_type}", "dim"),
        f"\n{printable(entry.summary)}",
        (f"\n{printable(roots.shown(entry.path))}", "dim"),
    )
    for line in _equal(found):
        text.append(f"\n{printable(line)}", style="dim")
    if answer.terms is not None:
        for line in _explanation(found, answer.terms):
            text.append(f"\n{printable(line)}", style="magenta")
    return text
