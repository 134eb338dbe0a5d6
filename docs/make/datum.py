"""Print the life of one datum, as Markdown, from a real index of the example tools.

From the root of the repository:

    uv run python docs/make/datum.py > docs/datum.md

A test checks that `datum.md` is what this prints; numbers are rounded, so that it does not depend
on the processor.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import struct
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

REPOSITORY = Path(__file__).parents[2]

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytools_hybrid import ToolSearch
    from pytools_hybrid.index import SQLiteReader
    from pytools_hybrid.search import FoundTool, SearchResponse

PATH = "mcptools/github/create_issue.py"
ID = "mcptools:github:create_issue"
QUERY = "report a bug in a repositry"
COLUMNS = (
    *("id", "path", "signature", "summary", "name_words", "category_words", "name_key"),
    *("qualified_key", "file_hash", "text_hash", "size"),
)
_SHOWN_PARAMETERS = 2
_LONG = 64


async def main() -> None:
    """Index the example tools, search them, and print what happens to one."""
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    os.chdir(REPOSITORY)
    from pytools_hybrid import Settings, ToolSearch

    root = Path("examples", "tools")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        settings = Settings(db_path=Path(folder, "index.db"))
        async with ToolSearch(root, settings) as tools:
            await tools.index.refresh()
            await tools.index.embed_pending()
            response = await tools.search(QUERY, limit=3)
            with tools.index.store.reading() as reader:
                file(root)
                record(root)
                rows(reader)
                vectors(reader)
                terms(reader)
                channels(response)
                fusion(response.tools)
                confidence(reader, response.tools[0])
                answer(tools, response)


def file(root: Path) -> None:
    """Show the source."""
    print(f"""\
# The life of one datum

What becomes of one file of the [example tools](../examples/README.md), step by step, with the
values that it really has. [datum.py](make/datum.py) has printed this page; a test prints it again.
[Architecture](architecture.md) says which part does what, and why; the [glossary](glossary.md)
explains the terms.

## 1. A file

`{(root / PATH).as_posix()}`, shortened:

```python""")
    lines = (root / PATH).read_text("utf-8").splitlines()
    fields = [number for number, line in enumerate(lines) if line.startswith("    title: ")]
    end = next(number for number, line in enumerate(lines) if line.startswith("from . import"))
    print("\n".join([*lines[4 : fields[0] + 4], "    …", *lines[end - 2 :]]))
    print("```\n")


def record(root: Path) -> None:
    """Show what toolscan makes of it."""
    import toolscan

    found = toolscan.read_tool(Path(PATH), root)
    parameters = [
        {"name": it.name, "annotation": it.annotation, "description": it.description}
        for it in found.parameters
    ]
    print("""\
## 2. A record

toolscan reads the file once, as bytes, and looks at its syntax tree. Nothing is imported or run.
""")
    show(
        {
            "id": str(found.id),
            "path": str(found.path),
            "signature": found.signature,
            "summary": found.summary,
            "description": short(found.description),
            "parameters": [*parameters[:_SHOWN_PARAMETERS], "…"],
            "file_hash": short(found.file_hash, 12),
            "text_hash": short(found.text_hash, 12),
        }
    )
    print("`file_hash` tells whether the file has changed. `text_hash` is that of this text, which")
    print("stands for the tool in vector search:\n")
    names = [parameter.name for parameter in found.parameters]
    print("```text")
    print(toolscan.embedding_text(found.id, found.description, names, tags=found.tags))
    print("```\n")


def rows(reader: SQLiteReader) -> None:
    """Show what toolindex writes."""
    sql = f"SELECT {', '.join(COLUMNS)}\nFROM entries WHERE id = '{ID}'"
    row = reader.connection.execute(sql).fetchone()
    print("""\
## 3. A row, and its words

`plan_sync` compares record and stored row, and `ToolIndex.sync` applies the plan in one
transaction:
""")
    print(f"```sql\n{sql}\n```\n")
    show(dict(zip(COLUMNS, (short(it) if isinstance(it, str) else it for it in row), strict=True)))
    print("""\
A trigger puts the words into the full-text table `entries_fts`, which cuts off endings (Porter's
stemmer). What it holds of this row:
""")
    run = reader.connection.execute
    run("CREATE VIRTUAL TABLE temp.words USING fts5vocab (main, entries_fts, instance)")
    words = run(
        "SELECT col, group_concat(term, ' ') FROM (SELECT col, term FROM words, entries AS e "
        "WHERE doc = e.rowid AND e.id = ? ORDER BY col, offset) GROUP BY col",
        (ID,),
    ).fetchall()
    table("column", "terms", rows=[(f"`{column}`", short(text)) for column, text in words])


def vectors(reader: SQLiteReader) -> None:
    """Show what `embed_pending` stores."""
    (model,) = reader.models()
    vector_table = reader.vector_table(model)
    assert vector_table is not None
    sql = f"SELECT embedding FROM {vector_table.name} JOIN entries USING (rowid) WHERE id = '{ID}'"
    blob = reader.connection.execute(sql).fetchone()[0]
    values = struct.unpack(f"<{vector_table.dimensions}f", blob)
    length = math.sqrt(sum(value * value for value in values))
    print(f"""\
From here on the tool is found by its words.

## 4. A vector

`embed_pending` asks for the texts that the model `{model}` has not
embedded yet, and stores what it gives by the hash of the text, so that no text is embedded twice.
A search that comes sooner has the offline model embed the tools that fit best by their words, for
its own answer.

```sql
{sql}
```

gives {vector_table.dimensions} numbers, of length {length:.2f} together: {numbers(values[:6])}, …
""")


def terms(reader: SQLiteReader) -> None:
    """Show what a request is taken apart into."""
    from toolembed import StaticEmbedder
    from toolrank import query_terms, split_request

    corrected = " ".join(reader.corrections(QUERY).get(word, word) for word in QUERY.split())
    values = StaticEmbedder().encode_queries([corrected])[0]
    length = math.hypot(*values)
    parts = split_request(QUERY) or "none: it has one need"
    print(f"""\
## 5. A request

> {QUERY}

| | |
|---|---|
| terms, without stop words | {code(query_terms(QUERY))} |
| no tool has | {code(f"{wrong} → {right}" for wrong, right in reader.corrections(QUERY).items())} |
| so this is embedded | {corrected} |
| its vector, as far as its direction goes | {numbers(value / length for value in values[:6])}, … |
| parts | {parts} |
""")
    found = reader.terms(QUERY, [ID])[ID]
    print("Each term says something for the tool, the more the fewer tools have it (BM25):\n")
    table("term", "adds", rows=[(f"`{term}`", f"{score:.2f}") for term, score in found.items()])


def channels(response: SearchResponse) -> None:
    """Show the two rankings."""
    print("""\
## 6. Two rankings

Both tables are asked in one read transaction. The score of words is BM25's, that of meaning is the
cosine of the two vectors; the background is the mean score of the tools at ranks 11 to 50, which
merely resemble the request.
""")
    rows = [
        (
            f"`{found.entry.id}`",
            each.retriever,
            each.rank,
            f"{each.score:.2f}",
            f"{each.background:.2f}",
        )
        for found in response.tools
        for each in found.contributions
    ]
    table("tool", "channel", "rank", "score", "background", rows=rows)


def fusion(found: Sequence[FoundTool]) -> None:
    """Show how two rankings become one."""
    from pytools_hybrid.search._engine import _UNITS as UNITS

    scores = [{each.retriever: each.score for each in it.contributions} for it in found]
    best = {
        name: max(each.get(name, 0.0) for each in scores) for name in UNITS if name in scores[0]
    }
    sums = [sum(UNITS[name] * each.get(name, 0.0) for name in best) for each in scores]
    attainable = sum(UNITS[name] * score for name, score in best.items())
    print(f"""\
## 7. One ranking

A cosine counts as it is, a point of BM25 {UNITS["bm25"]} of one; the sum is divided by what the
best of both lists would have, {attainable:.2f}
([decision 8](decisions/0008-strength-not-rank-decides-the-fusion.md)). Then a tool goes up with the
best of its category: (score + 0.3 · best) / 1.3.
""")
    rows = []
    for it, score, total in zip(found, scores, sums, strict=True):
        explained = it.explanation
        assert explained is not None
        assert math.isclose(total / attainable, explained.request)
        arithmetic = " + ".join(f"{UNITS[name]:g} · {score.get(name, 0.0):.2f}" for name in best)
        rows.append(
            (f"`{it.entry.id}`", f"({arithmetic}) / {attainable:.2f}", f"{explained.request:.2f}",
             f"{explained.group or 0:.2f}", f"**{it.score / found[0].score:.2f}**")
        )  # fmt: skip
    table("tool", "fusion", "gives", "best of category", "share", rows=rows)
    print("""\
Nothing was reported of these tools yet, so past use moves none. The request names none either, or
that tool would be first whatever the scores, and none of them say the same as another, or they
would be one result.
""")


def confidence(reader: SQLiteReader, first: FoundTool) -> None:
    """Show how sure the first result is."""
    from toolrank import query_terms

    by_channel = {each.retriever: each for each in first.contributions}
    meaning = by_channel["vector"]
    share = reader.lexical_coverage(QUERY, [first.id])[first.id]
    terms = len(query_terms(QUERY))
    print(f"""\
## 8. How sure is it?

So far the numbers only order one answer. The confidence says whether the first result is an
answer at all, from two things that mean the same in every search:

- how much of the request its words cover: {share:.2f} of the weight of {terms} words, where
  rare ones weigh most;
- how far its cosine stands out from the mean of the five nearest tools of other categories:
  {meaning.score:.2f} - {meaning.rivals:.2f} = {meaning.score - meaning.rivals:.2f}.

A logistic model of both gives **{first.confidence:.2f}**. That is the first tool's score; the
others' scores are their shares of it.
""")


def answer(tools: ToolSearch, response: SearchResponse) -> None:
    """Show what an agent gets."""
    from pytools_hybrid.serve.results import answer_meta, tool_results

    first = tool_results(response, tools.roots)[0].model_dump()
    first |= {name: round(first[name], 2) for name in ("score", "confidence")}
    meta = answer_meta(response)
    meta |= {"search_id": "…", "generation": "…"}
    print("""\
## 9. A result

`search_tools` answers with a list of these, best first:
""")
    show(first | {"description": short(first["description"])})
    print("and, beside it in `_meta`:\n")
    show(meta)
    print(
        """\
When the agent has used the tool, `report_outcome` notes whether it worked, and the tool's next
score is up to a tenth higher or lower. When the file changes, all of this happens again for this
one file, within a second.
""".rstrip()
    )


def show(value: Any) -> None:  # noqa: ANN401 - any value of JSON
    """Print a value as JSON."""
    print(f"```json\n{json.dumps(value, indent=2, ensure_ascii=False)}\n```\n")


def table(*heads: str, rows: Iterable[Sequence[object]]) -> None:
    """Print a table."""
    for cells in (heads, ["---"] * len(heads), *rows):
        print(f"| {' | '.join(map(str, cells))} |")
    print()


def numbers(values: Iterable[float]) -> str:
    """Give numbers with two digits, none of them `-0.00`."""
    return ", ".join(f"{round(value, 2) + 0.0:.2f}" for value in values)


def code(words: Iterable[str]) -> str:
    """Give words as code."""
    return " ".join(f"`{word}`" for word in words)


def short(text: str, length: int = _LONG) -> str:
    """Give the beginning of a text."""
    return text if len(text) <= length else f"{text[:length].rstrip()}…"


if __name__ == "__main__":
    asyncio.run(main())
