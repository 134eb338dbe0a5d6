"""The promises of a store about filters, in every channel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolindex._filters import ToolFilter
from toolindex._usage import OutcomeRecord
from toolindex.testing._trees import (
    EVERY,
    MERGE,
    READ,
    SEND,
    SPLIT,
    TOOLS,
    embed,
    expect,
    fill,
    ids,
    module,
    near,
    words,
)

if TYPE_CHECKING:
    from toolindex.protocols import ToolStore

_BULK = {
    f"mcptools/bulk/tool_{n:03}.py": module("Send a message to somebody.", "bulk")
    for n in range(60)
}


def _check_filters(store: ToolStore) -> None:
    """A filter passes the same tools in every channel, and finds all of them."""
    deep = {"mcptools/pdfs/scan.py": module("Scan a file.", "post")}
    fill(store, {**_BULK, **TOOLS, **deep})
    far = {"send": 3.0, "read": 2.9, "merge": 3.1, "split": 2.8, "scan": 2.7}
    embed(store, {"tool": 0.0} | far)
    for where, expected in (
        (ToolFilter(source="gentools"), {SPLIT}),
        (ToolFilter(categories=["mail", "pdf"]), {SEND, READ, MERGE, SPLIT}),
        (ToolFilter(path_prefix="mcptools/pdf"), {MERGE}),
        (ToolFilter(path_prefix="mcptools/mail/send.py"), {SEND}),
        (ToolFilter(source="mcptools", categories=["pdf"]), {MERGE}),
        (ToolFilter(tags=["post"]), {SEND, READ, "mcptools:pdfs:scan"}),
        (ToolFilter(tags=["post", "outgoing"]), {SEND}),
        (ToolFilter(tags=["none has it"]), set[str]()),
        (ToolFilter(source="\ud800"), set[str]()),
    ):
        _expect_through(store, where, expected)


def _check_patterns(store: ToolStore) -> None:
    """A filter by id patterns passes the same tools in every channel."""
    odd = {"mcptools/pdf/[m]erge.py": module("Merge no file.")}
    fill(store, {**_BULK, **TOOLS, **odd})
    angles = {"send": 3.0, "read": 2.9, "merge": 3.1, "split": 2.8, "m": 2.7}
    embed(store, {"tool": 0.0} | angles)
    bracketed = "mcptools:pdf:[m]erge"
    for where, expected in (
        (ToolFilter(include=[SEND]), {SEND}),
        (ToolFilter(include=["*:mail:*", MERGE]), {SEND, READ, MERGE}),
        (ToolFilter(include=["*:pdf:*"]), {MERGE, SPLIT, bracketed}),
        (ToolFilter(include=["mcptools:????:*d"]), {SEND, READ}),
        (ToolFilter(include=["*:[m]erge"]), {bracketed}),
        (ToolFilter(include=["*:Mail:*"]), set[str]()),
        (ToolFilter(include=["*:mail"]), set[str]()),
        (ToolFilter(exclude=["*:bulk:*", "*e*d", bracketed]), {MERGE, SPLIT}),
        (ToolFilter(include=["*:mail:*"], exclude=[READ]), {SEND}),
        (ToolFilter(include=["\ud800*", "\0*"]), set[str]()),
    ):
        _expect_through(store, where, expected)


def _check_categories(store: ToolStore) -> None:
    """Tools that pass a filter are counted by source and category."""
    fill(store, TOOLS)
    mail, pdf, made = ("mcptools", "mail"), ("mcptools", "pdf"), ("gentools", "pdf")
    with store.reading() as reader:
        promise = "tools are counted by source and category"
        expect(dict(reader.categories(EVERY)), {mail: 2, pdf: 1, made: 1}, promise)
        for where, expected in (
            (ToolFilter(source="mcptools", categories=["pdf"]), {pdf: 1}),
            (ToolFilter(tags=["outgoing"]), {mail: 1}),
            (ToolFilter(exclude=["*:pdf:merge", "*:read"]), {mail: 1, made: 1}),
            (ToolFilter(source="none"), {}),
        ):
            promise = f"only tools that {where} lets through are counted"
            expect(dict(reader.categories(where)), expected, promise)
            expect(len(reader.ids(where)), sum(expected.values()), "and no others are listed")
        expect(list(reader.ids(EVERY)), sorted(reader.ids(EVERY)), "ids are sorted")
        promise = "the last change of a tool has a time"
        expect(reader.changed_at() is not None, True, promise)


def _check_usage_filters(store: ToolStore) -> None:
    """A filter by use judges tools by their outcomes, once there are enough of them."""
    fill(store, {**_BULK, **TOOLS})
    embed(store, {"tool": 0.0, "send": 3.0, "read": 2.9, "merge": 3.1, "split": 2.8})
    outcomes = {
        SEND: (1, 4, 10.0),
        READ: (5, 0, 900.0),
        MERGE: (4, 1, 20.0),
        SPLIT: (0, 1, 1.0),
    }
    store.usage.record_outcomes(
        OutcomeRecord(at=1.0, tool_id=id_, success=number < good, latency_ms=latency)
        for id_, (good, bad, latency) in outcomes.items()
        for number in range(good + bad)
    )
    here = ["mail", "pdf"]
    for where, expected in (
        (ToolFilter(categories=here, min_success_rate=0.5), {READ, MERGE, SPLIT}),
        (ToolFilter(categories=here, min_success_rate=0.9), {READ, SPLIT}),
        (ToolFilter(min_success_rate=0.5, unknown="exclude"), {READ, MERGE}),
        (
            ToolFilter(categories=here, max_latency_ms=50, min_observations=4),
            {SEND, MERGE, SPLIT},
        ),
        (
            ToolFilter(max_latency_ms=50, min_observations=1, unknown="exclude"),
            {SEND, MERGE},
        ),
    ):
        _expect_through(store, where, expected)


def _expect_through(store: ToolStore, where: ToolFilter, expected: set[str]) -> None:
    """Search with a depth that tools outside the filter would fill on their own."""
    with store.reading() as reader:
        by_meaning = set(near(reader, where=where, depth=5))
        expect(by_meaning, expected, f"{where} lets all of its tools through, by meaning")
        by_words = set(words(reader, "message messages files file", where=where, depth=5))
        expect(by_words, expected, f"{where} lets all of its tools through, by words")
        alike = set(ids(reader.fuzzy("mesage messags fils file", where=where, depth=5)))
        expect(alike, expected, f"{where} lets all of its tools through, by likeness")


CHECKS = (
    _check_filters,
    _check_patterns,
    _check_categories,
    _check_usage_filters,
)
