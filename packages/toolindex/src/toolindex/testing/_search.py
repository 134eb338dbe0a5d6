"""The promises of a store about search: words, names, details."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolindex._filters import ToolFilter
from toolindex._usage import OutcomeRecord
from toolindex.testing._trees import (
    EVERY,
    MERGE,
    ODD_TEXTS,
    READ,
    SEND,
    SPLIT,
    TOOLS,
    expect,
    fill,
    ids,
    module,
    scanned,
    words,
)

if TYPE_CHECKING:
    from toolindex.protocols import ToolStore

_CHANGED = {**TOOLS, "mcptools/mail/send.py": module("Post a letter.")}


def _check_words(store: ToolStore) -> None:
    """Any string is a query, and finds the tools that share words with it."""
    fill(store, TOOLS)
    with store.reading() as reader:
        promise = "tools that share words with a query are found, and no others"
        expect(words(reader, "mailbox"), [READ], promise)
        expect(set(words(reader, "several pages")), {MERGE, SPLIT}, promise)
        expect(words(reader, "merge several files")[0], MERGE, "candidates come best first")
        expect(words(reader, "nothing_like_it"), [], promise)
        promise = "there are as many candidates as asked for, where there are that many"
        for depth in (1, 2):
            expect(len(words(reader, "mailbox several pages", depth=depth)), depth, promise)
        for text in ODD_TEXTS:
            words(reader, text)
    fill(store, _CHANGED)
    with store.reading() as reader:
        expect(words(reader, "letter"), [SEND], "a changed tool is found by its new words")
        expect(words(reader, "somebody"), [], "a changed tool is not found by its old words")


def _check_fuzzy(store: ToolStore) -> None:
    """Tools are found by words that are misspelt or cut short, and filters apply."""
    fill(store, TOOLS)
    with store.reading() as reader:
        promise = "a tool is found by a word that is right, misspelt or cut short"
        for query in ("mailbox", "mailbx", "mialbox", "mailbo"):
            found = ids(reader.fuzzy(query, where=EVERY, depth=10))
            expect(found[:1], [READ], f"{promise} (asked for {query!r})")
        found = ids(reader.fuzzy("fils", where=EVERY, depth=10))
        expect(set(found), {MERGE, SPLIT}, promise)
        expect(len(reader.fuzzy("fils", where=EVERY, depth=1)), 1, "no more than asked for")
        found = ids(reader.fuzzy("fils", where=ToolFilter(source="gentools"), depth=10))
        expect(found, [SPLIT], "a filter holds for misspelt words")
        expect(list(reader.fuzzy("xyzzyq", where=EVERY, depth=10)), [], "no word is like that one")
        for text in ODD_TEXTS:
            ids(reader.fuzzy(text, where=EVERY, depth=10))


def _check_names(store: ToolStore) -> None:
    """A tool is found by its name, in any spelling."""
    fill(store, TOOLS)
    with store.reading() as reader:
        promise = "a tool is found by its name, its category and name, or its id"
        for query in ("merge", "Merge()", "pdf_merge", "pdf merge", "PDF.merge", MERGE):
            found = [hit.id for hit in reader.named(query, where=EVERY)]
            expect(found, [MERGE], f"{promise} (asked for {query!r})")
        expect(list(reader.named("", where=EVERY)), [], promise)
        expect(list(reader.named("merge", where=ToolFilter(source="gentools"))), [], promise)
        for text in ODD_TEXTS:
            reader.named(text, where=EVERY)
            reader.corrections(text)
            found = [it.id for it in reader.lexical(text, where=ToolFilter(), depth=3)]
            terms = reader.terms(text, found)
            expect(set(terms) <= set(found), True, "terms are returned for the requested tools")
            expect(all(terms.get(id_) for id_ in found), True, "tools found by words have some")
            shares = reader.lexical_coverage(text, found)
            expect(set(shares) <= set(found), True, "shares are returned for the requested tools")
            expect(
                all(0 < shares.get(id_, 0.0) <= 1 for id_ in found),
                True,
                "tools found by words have a share of them",
            )
            expect(reader.lexical_scale(text) >= 0, True, "a scale is zero or more")


def _check_outcomes(store: ToolStore) -> None:
    """The outcomes of tools are counted, and tools without outcomes are left out."""
    fill(store, TOOLS)
    outcomes = [
        *((SEND, True, None), (SEND, True, 30.0), (SEND, False, 90.0)),
        (READ, False, None),
    ]
    store.usage.record_outcomes(
        OutcomeRecord(at=1.0, tool_id=id_, success=success, latency_ms=latency)
        for id_, success, latency in outcomes
    )
    with store.reading() as reader:
        expect(
            dict(reader.outcomes()),
            {SEND: (2, 1, 1, 30.0), READ: (0, 1, 0, None)},
            "successes, failures and latencies are summarized for each tool that has any",
        )


def _check_entries(store: ToolStore) -> None:
    """Details are those of the scan."""
    scan = scanned(TOOLS)
    fill(store, scan)
    with store.reading() as reader:
        found = reader.entries([SEND, "gone", "\ud800", MERGE])
        expect(set(found), {SEND, MERGE}, "an id that is gone is left out of the details")
        for record in scan.records:
            for id_, entry in reader.entries([str(record.id)]).items():
                for name in ("id", "path", "signature", "summary", "description", "parameters"):
                    promise = f"the {name} of {id_} is as scanned"
                    expect(getattr(entry, name), getattr(record, name), promise)
                expect(tuple(entry.tags), record.tags, f"the tags of {id_} are as scanned")
        expect(dict(reader.entries([])), {}, "no ids have no details")


CHECKS = (
    _check_words,
    _check_fuzzy,
    _check_names,
    _check_outcomes,
    _check_entries,
)
