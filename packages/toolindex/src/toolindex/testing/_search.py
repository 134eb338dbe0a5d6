"""The promises of a store about search: words, vectors, filters, details."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from toolindex._filters import ToolFilter
from toolindex._usage_records import OutcomeRecord
from toolindex.errors import VectorError
from toolindex.testing._trees import (
    EVERY,
    ODD_TEXTS,
    TOOLS,
    embed,
    expect,
    fill,
    ids,
    module,
    near,
    refused,
    scanned,
    words,
)

if TYPE_CHECKING:
    from toolindex.protocols import ToolStore

_SEND, _READ, _MERGE, _SPLIT = (
    "mcptools:mail:send",
    "mcptools:mail:read",
    "mcptools:pdf:merge",
    "gentools:pdf:split",
)
_ANGLES = {"send": 0.0, "read": 0.5, "merge": 1.0, "split": 3.0}
_CHANGED = {**TOOLS, "mcptools/mail/send.py": module("Post a letter.")}
_REFUSALS = 12
_BULK = {
    f"mcptools/bulk/tool_{n:03}.py": module("Send a message to somebody.", "bulk")
    for n in range(60)
}


def _check_outcomes(store: ToolStore) -> None:
    """The outcomes of tools are counted, and tools without outcomes are left out."""
    fill(store, TOOLS)
    outcomes = [
        *((_SEND, True, None), (_SEND, True, 30.0), (_SEND, False, 90.0)),
        (_READ, False, None),
    ]
    store.usage.record_outcomes(
        OutcomeRecord(at=1.0, tool_id=id_, success=success, latency_ms=latency)
        for id_, success, latency in outcomes
    )
    with store.reading() as reader:
        expect(
            dict(reader.outcomes()),
            {_SEND: (2, 1, 1, 30.0), _READ: (0, 1, 0, None)},
            "successes, failures and latencies are summarized for each tool that has any",
        )


def _check_names(store: ToolStore) -> None:
    """A tool is found by its name, in any spelling."""
    fill(store, TOOLS)
    with store.reading() as reader:
        promise = "a tool is found by its name, its category and name, or its id"
        for query in ("merge", "Merge()", "pdf_merge", "pdf merge", "PDF.merge", _MERGE):
            found = [hit.id for hit in reader.named(query, where=EVERY)]
            expect(found, [_MERGE], f"{promise} (asked for {query!r})")
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


def _check_words(store: ToolStore) -> None:
    """Any string is a query, and finds the tools that share words with it."""
    fill(store, TOOLS)
    with store.reading() as reader:
        promise = "tools that share words with a query are found, and no others"
        expect(words(reader, "mailbox"), [_READ], promise)
        expect(set(words(reader, "several pages")), {_MERGE, _SPLIT}, promise)
        expect(words(reader, "merge several files")[0], _MERGE, "candidates come best first")
        expect(words(reader, "nothing_like_it"), [], promise)
        promise = "there are as many candidates as asked for, where there are that many"
        for depth in (1, 2):
            expect(len(words(reader, "mailbox several pages", depth=depth)), depth, promise)
        for text in ODD_TEXTS:
            words(reader, text)
    fill(store, _CHANGED)
    with store.reading() as reader:
        expect(words(reader, "letter"), [_SEND], "a changed tool is found by its new words")
        expect(words(reader, "somebody"), [], "a changed tool is not found by its old words")


def _check_fuzzy(store: ToolStore) -> None:
    """Tools are found by words that are misspelt or cut short, and filters apply."""
    fill(store, TOOLS)
    with store.reading() as reader:
        promise = "a tool is found by a word that is right, misspelt or cut short"
        for query in ("mailbox", "mailbx", "mialbox", "mailbo"):
            found = ids(reader.fuzzy(query, where=EVERY, depth=10))
            expect(found[:1], [_READ], f"{promise} (asked for {query!r})")
        found = ids(reader.fuzzy("fils", where=EVERY, depth=10))
        expect(set(found), {_MERGE, _SPLIT}, promise)
        expect(len(reader.fuzzy("fils", where=EVERY, depth=1)), 1, "no more than asked for")
        found = ids(reader.fuzzy("fils", where=ToolFilter(source="gentools"), depth=10))
        expect(found, [_SPLIT], "a filter holds for misspelt words")
        expect(list(reader.fuzzy("xyzzyq", where=EVERY, depth=10)), [], "no word is like that one")
        for text in ODD_TEXTS:
            ids(reader.fuzzy(text, where=EVERY, depth=10))


def _check_entries(store: ToolStore) -> None:
    """Details are those of the scan."""
    scan = scanned(TOOLS)
    fill(store, scan)
    with store.reading() as reader:
        found = reader.entries([_SEND, "gone", "\ud800", _MERGE])
        expect(set(found), {_SEND, _MERGE}, "an id that is gone is left out of the details")
        for record in scan.records:
            for id_, entry in reader.entries([str(record.id)]).items():
                for name in ("id", "path", "signature", "summary", "description", "parameters"):
                    promise = f"the {name} of {id_} is as scanned"
                    expect(getattr(entry, name), getattr(record, name), promise)
                expect(tuple(entry.tags), record.tags, f"the tags of {id_} are as scanned")
        expect(dict(reader.entries([])), {}, "no ids have no details")


def _check_pending(store: ToolStore) -> None:
    """A text is pending for a model until its vector is stored, once for all tools."""
    twins = {path: module("Join it.") for path in ("mcptools/a/join.py", "gentools/a/join/api.py")}
    fill(store, {**TOOLS, **twins})
    pending = store.pending("m", limit=99)
    expect(len(pending), 5, "a text that two tools share is pending once")
    expect(store.count_pending("m"), 5, "texts that are pending are counted")
    expect(len(store.pending("m", limit=3)), 3, "no more texts are returned than requested")
    some = [*pending][:2]
    promise = "only requested texts are pending"
    expect(set(store.pending("m", limit=99, among=[*some, "gone"])), set(some), promise)
    embed(store, {"join": 0.0})
    with store.reading() as reader:
        expect(
            near(reader), ["gentools:a:join", "mcptools:a:join"], "a text's vector serves all tools"
        )
        coverage = reader.coverage("m")
        counts = coverage.tools, coverage.vectors, coverage.dimensions
        expect(counts, (6, 2, 2), "coverage counts tools, and those with a vector")
        asked = ["gentools:a:join", "mcptools:a:join", _SEND, "gone", "\ud800"]
        promise = "tools with a vector of a model are distinguished from those without"
        expect(set(reader.with_vectors(asked, model_id="m")), set(asked[:2]), promise)
        expect(len(reader.with_vectors(asked, model_id="other")), 0, promise)
    expect(store.count_pending("m"), 4, "a text with a vector is not pending")
    expect(store.count_pending("other"), 5, "texts are pending for each model separately")


def _check_refused(store: ToolStore) -> None:
    """A text that a model refused is not pending for it, and its tools are named."""
    twins = {path: module("Join it.") for path in ("mcptools/a/join.py", "gentools/a/join/api.py")}
    fill(store, {**TOOLS, **twins})
    pending = store.pending("m", limit=99)
    reasons = {key: "too odd" for key, text in pending.items() if text.startswith("join")}
    # The more often, the longer: once might not last for this check on a slow machine.
    for _ in range(_REFUSALS):
        store.refuse("m", reasons)
    store.refuse("m", {"a text that no tool has": "too late"})
    promise = "a text that was refused is not pending"
    expect(set(store.pending("m", limit=99)), set(pending) - set(reasons), promise)
    expect(store.count_pending("m"), 4, "a text that was refused is not counted as pending")
    promise = "texts are refused for each model separately"
    others = (store.count_pending("other"), len(store.refused("other")))
    expect(others, (5, 0), promise)
    named = dict.fromkeys(("gentools:a:join", "mcptools:a:join"), "too odd")
    promise = "every tool whose text was refused is named with the reason, and no other"
    expect(dict(store.refused("m")), named, promise)
    store.put_vectors("m", {text_hash: [1.0, 0.0] for text_hash in reasons})
    expect(dict(store.refused("m")), {}, "a text that has a vector is no longer refused")


def _check_nearest(store: ToolStore) -> None:
    """Tools are found by the cosine of their vectors."""
    fill(store, TOOLS)
    embed(store, _ANGLES)
    embed(store, dict(zip(_ANGLES, reversed(_ANGLES.values()), strict=True)), model_id="other")
    with store.reading() as reader:
        expect(
            near(reader),
            [_SEND, _READ, _MERGE, _SPLIT],
            "tools are sorted by the cosine of their vectors",
        )
        expect(near(reader, depth=2), [_SEND, _READ], "the nearest tools are those that are kept")
        expect(near(reader, model_id="other")[0], _SPLIT, "models do not disturb each other")
        expect(near(reader, model_id="unknown"), [], "a model without vectors finds nothing")
        expect(
            set(reader.models()), {"m", "other"}, "models whose vectors can be searched are named"
        )
        found = reader.nearest([3.0, 0.0], model_id="m", where=EVERY, depth=9)
        for candidate, angle in zip(found, _ANGLES.values(), strict=True):
            alike = math.isclose(candidate.score, math.cos(angle), abs_tol=1e-3)
            expect(alike, True, f"the score {candidate.score} is the cosine {math.cos(angle)}")


def _check_kept_vectors(store: ToolStore) -> None:
    """A vector is kept by its text, even if the tool is removed."""
    fill(store, TOOLS)
    with store.reading() as reader:
        states = [(reader.generation(), reader.state_of("m"))]
    late = {text_hash: [1.0, 1.0] for text_hash in store.pending("m", limit=9)}
    fill(store, {})
    store.put_vectors("m", late)
    fill(store, TOOLS)
    expect(store.count_pending("m"), 0, "the vector of a tool that was removed is kept")
    fill(store, {})
    fill(store, TOOLS)
    expect(store.count_pending("m"), 0, "a tool that comes back has its vector")
    with store.reading() as reader:
        expect(len(near(reader)), 4, "a tool that comes back is found by its vector")
    store.prune()
    expect(store.count_pending("m"), 0, "a vector that a tool needs is never forgotten")
    expect(store.use_model("m"), True, "a model with vectors can be used")
    expect(store.use_model("unknown"), False, "a model without vectors cannot be used")
    fill(store, _CHANGED)
    with store.reading() as reader:
        expect(_SEND in near(reader), False, "a changed tool is not found by its old vector")
        states.append((reader.generation(), reader.state_of("m")))
    expect(store.count_pending("m"), 1, "a changed text is pending")
    embed(store, _ANGLES)
    with store.reading() as reader:
        states.append((reader.generation(), reader.state_of("m")))
    for each in zip(*states, strict=True):
        expect(len(set(each)), 3, "the generation and a model's state change with its vectors")


def _check_bad_vectors(store: ToolStore) -> None:
    """Vectors that cannot be searched are refused, and nothing of their batch is kept."""
    fill(store, TOOLS)
    first, second, *_ = store.pending("m", limit=9)
    infinite: list[list[float]] = [[math.nan, 1.0], [math.inf, 0.0], [1e39, 1.0]]
    for bad in (*infinite, [0.0, 0.0], [1e-320, 0.0], [1.0], []):
        with refused(VectorError, f"a batch with the vector {bad} is refused"):
            store.put_vectors("m", {first: [1.0, 0.0], second: bad})
        expect(store.count_pending("m"), 4, "nothing of a refused batch is stored")
    store.put_vectors("m", {})


def _check_upkeep(store: ToolStore) -> None:
    """A rebuild loses nothing but the vectors that it is asked to forget."""
    fill(store, TOOLS)
    embed(store, _ANGLES)
    embed(store, _ANGLES, model_id="other")
    expect(list(store.check()), [], "a store without damage is consistent")
    store.rebuild(forget="other")
    expect(list(store.check()), [], "a rebuilt store is consistent")
    expect(store.count_pending("m"), 0, "a rebuild keeps vectors")
    forgotten = store.pending("other", limit=9)
    expect(len(forgotten), 4, "a rebuild forgets the vectors of the model that is named")
    expect(
        set(store.text_hashes([_SEND, _READ, "gone"])) < set(forgotten),
        True,
        "the hashes of tools' texts are those of pending texts",
    )
    with store.reading() as reader:
        expect(words(reader, "mailbox"), [_READ], "a rebuilt store is searched by words")
        expect(near(reader)[0], _SEND, "a rebuilt store is searched by vectors")


def _check_lengths(store: ToolStore) -> None:
    """A model that changes the length of its vectors counts as another model."""
    fill(store, TOOLS)
    embed(store, _ANGLES)
    store.use_model("m", dimensions=3)
    expect(store.count_pending("m"), 4, "all texts are pending for vectors of another length")
    with store.reading() as reader:
        expect(len(near(reader)), 4, "vectors of the length that was before are found")
        expect(reader.coverage("m", dimensions=2).vectors, 4, "and they are counted")
        expect(reader.coverage("m").vectors, 0, "vectors of the length put to use are counted")
    store.put_vectors(
        "m", {text_hash: [1.0, 0.0, 0.0] for text_hash in store.pending("m", limit=9)}
    )
    with store.reading() as reader:
        found = reader.nearest([1.0, 0.0, 0.0], model_id="m", where=EVERY, depth=9)
        expect(len(found), 4, "vectors of the new length are found")
        expect(len(near(reader)), 4, "and those of the old one still are")
        expect(list(reader.models()), ["m"], "both are of one model")
    store.use_model("m", dimensions=2)
    expect(store.count_pending("m"), 0, "vectors of the length that was before are kept")


def _check_filters(store: ToolStore) -> None:
    """A filter passes the same tools in every channel, and finds all of them."""
    deep = {"mcptools/pdfs/scan.py": module("Scan a file.", "post")}
    fill(store, {**_BULK, **TOOLS, **deep})
    far = {"send": 3.0, "read": 2.9, "merge": 3.1, "split": 2.8, "scan": 2.7}
    embed(store, {"tool": 0.0} | far)
    for where, expected in (
        (ToolFilter(source="gentools"), {_SPLIT}),
        (ToolFilter(categories=["mail", "pdf"]), {_SEND, _READ, _MERGE, _SPLIT}),
        (ToolFilter(path_prefix="mcptools/pdf"), {_MERGE}),
        (ToolFilter(path_prefix="mcptools/mail/send.py"), {_SEND}),
        (ToolFilter(source="mcptools", categories=["pdf"]), {_MERGE}),
        (ToolFilter(tags=["post"]), {_SEND, _READ, "mcptools:pdfs:scan"}),
        (ToolFilter(tags=["post", "outgoing"]), {_SEND}),
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
        (ToolFilter(include=[_SEND]), {_SEND}),
        (ToolFilter(include=["*:mail:*", _MERGE]), {_SEND, _READ, _MERGE}),
        (ToolFilter(include=["*:pdf:*"]), {_MERGE, _SPLIT, bracketed}),
        (ToolFilter(include=["mcptools:????:*d"]), {_SEND, _READ}),
        (ToolFilter(include=["*:[m]erge"]), {bracketed}),
        (ToolFilter(include=["*:Mail:*"]), set[str]()),
        (ToolFilter(include=["*:mail"]), set[str]()),
        (ToolFilter(exclude=["*:bulk:*", "*e*d", bracketed]), {_MERGE, _SPLIT}),
        (ToolFilter(include=["*:mail:*"], exclude=[_READ]), {_SEND}),
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
        _SEND: (1, 4, 10.0),
        _READ: (5, 0, 900.0),
        _MERGE: (4, 1, 20.0),
        _SPLIT: (0, 1, 1.0),
    }
    store.usage.record_outcomes(
        OutcomeRecord(at=1.0, tool_id=id_, success=number < good, latency_ms=latency)
        for id_, (good, bad, latency) in outcomes.items()
        for number in range(good + bad)
    )
    here = ["mail", "pdf"]
    for where, expected in (
        (ToolFilter(categories=here, min_success_rate=0.5), {_READ, _MERGE, _SPLIT}),
        (ToolFilter(categories=here, min_success_rate=0.9), {_READ, _SPLIT}),
        (ToolFilter(min_success_rate=0.5, unknown="exclude"), {_READ, _MERGE}),
        (
            ToolFilter(categories=here, max_latency_ms=50, min_observations=4),
            {_SEND, _MERGE, _SPLIT},
        ),
        (
            ToolFilter(max_latency_ms=50, min_observations=1, unknown="exclude"),
            {_SEND, _MERGE},
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
    _check_words,
    _check_fuzzy,
    _check_names,
    _check_outcomes,
    _check_entries,
    _check_pending,
    _check_refused,
    _check_nearest,
    _check_kept_vectors,
    _check_bad_vectors,
    _check_upkeep,
    _check_lengths,
    _check_filters,
    _check_patterns,
    _check_categories,
    _check_usage_filters,
)
