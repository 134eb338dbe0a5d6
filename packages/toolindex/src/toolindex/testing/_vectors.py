"""The promises of a store about vectors: pending, kept, nearest."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from toolindex.errors import VectorError
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
    module,
    near,
    refused,
    words,
)

if TYPE_CHECKING:
    from toolindex.protocols import ToolStore

_ANGLES = {"send": 0.0, "read": 0.5, "merge": 1.0, "split": 3.0}
_REFUSALS = 12
_SURE_SECONDS = 10.0
_CHANGED = {**TOOLS, "mcptools/mail/send.py": module("Post a letter.")}


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
        asked = ["gentools:a:join", "mcptools:a:join", SEND, "gone", "\ud800"]
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
    promise, others = "a text that was refused is not pending", set(pending) - set(reasons)
    began = time.monotonic()
    store.refuse("m", reasons)
    after_one = set(store.pending("m", limit=99))
    # Each refusal lasts longer than the last; on a slow machine, the first may be over by now.
    if time.monotonic() - began < _SURE_SECONDS:
        expect(after_one, others, promise)
    for _ in range(_REFUSALS):
        store.refuse("m", reasons)
    store.refuse("m", {"a text that no tool has": "too late"})
    expect(set(store.pending("m", limit=99)), others, promise)
    expect(store.count_pending("m"), 4, "a text that was refused is not counted as pending")
    promise = "texts are refused for each model separately"
    counts = (store.count_pending("other"), len(store.refused("other")))
    expect(counts, (5, 0), promise)
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
            [SEND, READ, MERGE, SPLIT],
            "tools are sorted by the cosine of their vectors",
        )
        expect(near(reader, depth=2), [SEND, READ], "the nearest tools are those that are kept")
        expect(near(reader, model_id="other")[0], SPLIT, "models do not disturb each other")
        expect(near(reader, model_id="unknown"), [], "a model without vectors finds nothing")
        expect(
            {id_: len(it) for id_, it in reader.vectors("m").items()},
            dict.fromkeys([SEND, READ, MERGE, SPLIT], 8),
            "each tool's vector can be read",
        )
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
        expect(SEND in near(reader), False, "a changed tool is not found by its old vector")
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
        set(store.text_hashes([SEND, READ, "gone"])) < set(forgotten),
        True,
        "the hashes of tools' texts are those of pending texts",
    )
    with store.reading() as reader:
        expect(words(reader, "mailbox"), [READ], "a rebuilt store is searched by words")
        expect(near(reader)[0], SEND, "a rebuilt store is searched by vectors")


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


CHECKS = (
    _check_pending,
    _check_refused,
    _check_nearest,
    _check_kept_vectors,
    _check_bad_vectors,
    _check_upkeep,
    _check_lengths,
)
