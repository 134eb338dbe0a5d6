"""Errors that borrowers of a connection raise, and the database errors that cause them."""

from contextlib import closing

import apsw
import pytest
from toolindex import (
    DamagedDatabaseError,
    DatabaseBusyError,
    IndexReader,
    ToolIndex,
)

ONE = {"mcptools:mail:send": "Send a message."}
MANY = {f"mcptools:a:t{n}": f"Tool {n}. " + "x" * 500 for n in range(300)}
PAGE = 16384


class RankerError(Exception):
    """The error that a ranker raises for any error of its driver."""


def count(index):
    """Read every entry, and wrap the driver's errors like a ranker does."""
    with index.reading() as reader:
        try:
            return reader.connection.execute("SELECT sum(length(description)) FROM entries").get
        except apsw.Error as error:
            raise RankerError("cannot search") from error


def test_a_borrowers_error_caused_by_damage_is_recognized(path, fill):
    with ToolIndex(path) as index:
        fill(index, MANY)
    with closing(apsw.Connection(str(path))) as connection:
        page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'entries'").get
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\xff" * PAGE)
    with ToolIndex(path) as index, pytest.raises(DamagedDatabaseError) as caught:
        count(index)
    assert isinstance(caught.value.__cause__, RankerError)


def test_a_borrowers_error_caused_by_a_lock_is_recognized(index, path):
    def write():
        with index.reading() as reader:
            try:
                reader.connection.execute("DELETE FROM meta")
            except apsw.Error as error:
                raise RankerError("cannot write") from error

    with index.reading() as reader:
        reader.connection.set_busy_timeout(10)
    with closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseBusyError):
            write()


@pytest.mark.parametrize("cause", [None, ValueError("a number is wrong")])
def test_any_other_error_of_a_borrower_passes_through_and_its_connection_is_reused(
    index, fill, contents, cause
):
    fill(index, ONE)
    with pytest.raises(RankerError) as caught, index.reading() as first:
        raise RankerError from cause
    assert caught.value.__cause__ is cause
    with index.reading() as second:
        assert second.connection is first.connection
    assert contents(index) == ONE


def test_simultaneous_readers_get_separate_connections_that_later_readers_reuse(index):
    with index.reading() as one, index.reading() as other:
        assert one.connection is not other.connection
        used = {one.connection, other.connection}
    with index.reading() as one, index.reading() as other:
        assert {one.connection, other.connection} == used


def test_counts_are_correct_while_another_thread_clears_their_cache(index, fill):
    """All readers of an index share a cache of how many rows its tables have."""

    class Forgetful(dict):
        def __setitem__(self, key, value):
            super().__setitem__(key, value)
            self.clear()

    fill(index, ONE)
    with index.reading() as reader:
        assert IndexReader(reader.connection, Forgetful()).coverage("m").tools == 1
