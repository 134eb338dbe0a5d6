"""The promises of a store about aliases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolindex.testing._trees import ODD_TEXTS, TOOLS, expect, fill, module, words

if TYPE_CHECKING:
    from toolindex.protocols import ToolStore

_SEND, _READ, _MERGE = "mcptools:mail:send", "mcptools:mail:read", "mcptools:pdf:merge"
_CHANGED = {**TOOLS, "mcptools/mail/send.py": module("Post a letter.")}
_WITHOUT_MAIL = {path: source for path, source in TOOLS.items() if "mail" not in path}


def _check_aliases(store: ToolStore) -> None:
    """Tools are found by their aliases, as last set."""
    fill(store, TOOLS)
    generations: list[object] = []
    odd = [text for text in ODD_TEXTS if text]
    for aliases, changed in (
        ({_SEND: ["ring a bell", "dispatchNote"], _READ: ["peruse"]}, 2),
        ({_SEND: ["ring a bell", "dispatchNote"], _READ: ["peruse"], "gone": ["peruse"]}, 0),
        ({_SEND: ["carrier pigeon"], _MERGE: odd, _READ: []}, 3),
        ({_SEND: ["carrier pigeon"], _READ: ["ring a bell"]}, 2),
    ):
        promise = f"tools with changed aliases are counted {aliases}"
        expect(store.annotate(aliases), changed, promise)
        with store.reading() as reader:
            generations.append(reader.generation())
    promise = "the generation changes with aliases, and only then"
    expect(len(set(generations)), 3, promise)
    expect(generations[0], generations[1], promise)
    _expect_aliases(store, {_SEND: ["pigeon"], _READ: ["bell"]}, gone=["dispatch", "peruse"])
    with store.reading() as reader:
        held = {id_: tuple(entry.aliases) for id_, entry in reader.entries([_SEND, _MERGE]).items()}
    promise = "the aliases of a tool are those that were set"
    expect(held, {_SEND: ("carrier pigeon",), _MERGE: ()}, promise)
    kept = store.annotate({_SEND: ["semaphore"], _READ: ["semaphore"]}, keep=[_SEND, "gone"])
    expect(kept, 1, "tools whose aliases are kept are not counted")
    _expect_aliases(store, {_SEND: ["pigeon"], _READ: ["semaphore"]}, gone=["bell"])
    fill(store, _CHANGED)
    _expect_aliases(store, {_SEND: ["pigeon", "letter"], _READ: ["semaphore"]}, gone=["somebody"])
    fill(store, _WITHOUT_MAIL)
    _expect_aliases(store, {}, gone=["pigeon", "semaphore"])
    fill(store, TOOLS)
    _expect_aliases(store, {}, gone=["pigeon", "semaphore"])
    with store.reading() as reader:
        held = {id_: tuple(entry.aliases) for id_, entry in reader.entries([_SEND]).items()}
    expect(held, {_SEND: ()}, "a tool that comes back has no aliases")


def _expect_aliases(store: ToolStore, found: dict[str, list[str]], *, gone: list[str]) -> None:
    with store.reading() as reader:
        for id_, queries in found.items():
            for query in queries:
                expect(words(reader, query), [id_], f"{id_} is found by its alias {query!r}")
        for query in gone:
            expect(
                words(reader, query), [], f"nothing is found by {query!r}, which is not an alias"
            )


CHECKS = (_check_aliases,)
