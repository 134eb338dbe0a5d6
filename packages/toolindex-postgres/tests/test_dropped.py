"""A tree that its owner has dropped is complete again after the next scan."""

from __future__ import annotations

from collections.abc import Callable

from toolindex_postgres import Database, SharedStore

from .trees import READER, report

ONE = report({"mail/send": "Send a message to somebody."})


def test_a_tree_that_was_dropped_is_complete_again_after_the_next_whole_scan(
    host: Callable[[], SharedStore], database: str, tree: str
) -> None:
    here = host()
    here.sync(ONE, reader_version=READER)
    with Database(database) as owner:
        assert owner.drop(tree)
    # Only a part of the files: a copy that was once complete takes it for a change of the whole.
    here.sync(report({}), reader_version=READER, within=["mcptools/mail"])
    here.sync(ONE, reader_version=READER)
    there = host()
    with there.reading() as reader:
        assert reader.is_complete()
    assert set(there.stored(reader_version=READER).hashes) == {"mcptools/mail/send.py"}
