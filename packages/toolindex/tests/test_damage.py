"""An index counts as damaged only after a check: a failed statement is no proof."""

import struct
from contextlib import closing

import apsw
import pytest
from toolindex import DamagedDatabaseError, DatabaseError, ToolIndex

ONE = {"mcptools:mail:send": "Send a message."}
MANY = {f"mcptools:a:t{n}": f"Tool {n}. " + "x" * 500 for n in range(300)}
PAGE = 16384
VECTOR = struct.pack("<4f", 1.0, 0.0, 0.0, 0.0)

WRONG = {
    "a missing table": ("DROP TABLE entries", "SELECT id FROM entries"),
    "a missing column": (
        "ALTER TABLE entries DROP COLUMN summary",
        "SELECT summary FROM entries",
    ),
    "a missing vector table": (
        "DROP TABLE entries_vec_vector_chunks00",
        "SELECT embedding FROM entries_vec",
    ),
    "a chunk that is too short": (
        "UPDATE entries_vec_vector_chunks00 SET vectors = x'00'",
        "SELECT embedding FROM entries_vec",
    ),
    "a chunk without its rows": (
        "UPDATE entries_vec_chunks SET rowids = x'00'",
        "SELECT rowid FROM entries_vec WHERE embedding MATCH ? AND k = 1",
    ),
}


def ask(index, statement):
    with index.reading() as reader:
        values = (VECTOR,) if "?" in statement else ()
        return reader.connection.execute(statement, values).fetchall()


@pytest.mark.parametrize(("breaks", "statement"), WRONG.values(), ids=WRONG.keys())
def test_a_database_that_differs_from_its_schema_is_damaged(
    path, fill, contents, breaks, statement
):
    with ToolIndex(path) as index:
        fill(index, MANY, model_id="m")
        with closing(apsw.Connection(str(path))) as other:
            other.execute(breaks)
        with pytest.raises(DamagedDatabaseError):
            ask(index, statement)
        assert index.quarantine() is not None
        fill(index, MANY)
        assert contents(index) == MANY
        assert index.pending("m", limit=1) == {}


@pytest.mark.parametrize(
    "statement",
    ["SELECT (", "SELECT chunk FROM entries", "SELECT x FROM outcomes", "SELECT * FROM x.meta"],
)
def test_a_statement_that_fails_for_another_reason_is_not_evidence_of_damage(
    index, fill, contents, statement
):
    """sqlite-vec, too, reports a wrong chunk if it merely could not open a file."""
    fill(index, ONE, model_id="m")
    with pytest.raises(DatabaseError, match="SQLite failed") as caught:
        ask(index, statement)
    assert type(caught.value) is DatabaseError
    assert index.quarantine() is None
    assert contents(index) == ONE


@pytest.mark.parametrize(
    ("suffix", "table"), [("", "entries"), ("", "models"), ("-kept", "embeddings")]
)
def test_a_broken_page_is_found_as_the_cause_of_a_failed_statement(path, fill, suffix, table):
    with ToolIndex(path) as index:
        fill(index, MANY, model_id="m")
    broken = path.with_name(f"{path.name}{suffix}")
    with closing(apsw.Connection(str(broken))) as other:
        page = other.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).get
    with broken.open("r+b") as file:
        file.seek((page - 1) * PAGE)
        file.write(b"\xff" * PAGE)
    with ToolIndex(path) as index, pytest.raises(DamagedDatabaseError):
        ask(index, "SELECT chunk FROM meta")


def test_the_file_that_is_now_at_the_path_is_checked(path, fill):
    with ToolIndex(path) as index:
        fill(index, ONE)
        garbage = path.with_name("garbage")
        garbage.write_bytes(b"not a database" * 999)

        def ask_while_it_is_replaced():
            with index.reading() as reader:
                garbage.replace(path)
                reader.connection.execute("SELECT chunk FROM meta")

        with pytest.raises(DamagedDatabaseError):
            ask_while_it_is_replaced()
        assert index.quarantine() is None
    assert path.read_bytes() == b"not a database" * 999
