"""Without sqlite-vec, everything is stored, and searched by other means."""

import sys
from contextlib import closing, contextmanager

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolindex import Coverage, DamagedDatabaseError, DatabaseError, ToolIndex

ONE = {"mcptools:mail:send": "Send a message."}
TWO = ONE | {"mcptools:mail:read": "Read a message."}
OTHER = {"mcptools:mail:send": "Post a letter."}


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Make sqlite-vec impossible to load: not installed, or broken in one of these ways."""
    folder = tmp_path_factory.mktemp("broken")
    for kind in ("no library", "garbage"):
        package = folder / kind / "sqlite_vec"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("raise ImportError('built for another machine')")
        if kind == "garbage":
            for suffix in ("so", "dylib", "dll"):
                (package / f"vec0.{suffix}").write_bytes(b"no library" * 1000)

    @contextmanager
    def without(kind="no library"):
        with pytest.MonkeyPatch.context() as patch:
            if kind == "not installed":
                patch.setitem(sys.modules, "sqlite_vec", None)
            else:
                patch.delitem(sys.modules, "sqlite_vec", raising=False)
                patch.syspath_prepend(folder / kind)
            yield

    return without


def coverage(index, model_id="m"):
    with index.reading() as reader:
        return reader.coverage(model_id)


def kept(index, model_id="m"):
    """Return the vectors that a search without the extension uses, by the ids of tools."""
    with index.reading() as reader:
        sql, values = reader.durable_vectors(model_id)
        return dict(
            reader.connection.execute(
                f"SELECT e.id, k.vector FROM ({sql}) AS k JOIN entries AS e USING (rowid)", values
            )
        )


def vector_tables(path):
    with closing(apsw.Connection(str(path))) as connection:
        rows = connection.execute("SELECT name FROM sqlite_schema WHERE sql LIKE '%USING vec0%'")
        return [name for (name,) in rows]


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("not installed", "is not installed"), ("no library", "vec0"), ("garbage", "vec0")],
)
def test_an_index_without_the_extension_works_and_reports_what_is_missing(
    path, fill, matches, broken, kind, reason
):
    with broken(kind), ToolIndex(path) as index:
        assert reason in index.extension_problem
        fill(index, TWO, model_id="m")
        assert index.pending("m", limit=9) == {}
        assert matches(index, "letter") == set()
        fill(index, OTHER, model_id="m")
        assert matches(index, "letter") == {"mcptools:mail:send"}
        assert index.use_model("m")
        assert coverage(index) == Coverage(tools=1, vectors=1, dimensions=4)
        assert set(kept(index)) == {"mcptools:mail:send"}
        assert index.check() == ()
        index.rebuild()
        assert index.prune() == 0
        assert coverage(index).vectors == 1
    assert vector_tables(path) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda index, fill: fill(index, ONE), id="a tool is removed"),
        pytest.param(lambda index, fill: fill(index, TWO | OTHER), id="a tool changes"),
        pytest.param(
            lambda index, fill: fill(index, {**TWO, "mcptools:a:b": "New."}, model_id="m"),
            id="a tool is added and embedded",
        ),
        pytest.param(lambda index, fill: index.rebuild(), id="everything is rebuilt"),
        pytest.param(lambda index, fill: index.rebuild(forget="m"), id="vectors are forgotten"),
    ],
)
def test_changes_made_without_the_extension_are_searchable_once_it_is_back(
    path, fill, broken, check_sound, change
):
    with ToolIndex(path) as index:
        fill(index, TWO, model_id="m")
        fill(index, TWO, model_id="other")
    with broken(), ToolIndex(path) as index:
        assert coverage(index).vectors == 2
        change(index, fill)
        changed = kept(index)
        assert coverage(index).vectors == len(changed)
    with ToolIndex(path, read_only=True) as index:
        assert (kept(index), coverage(index).vectors) == (changed, len(changed))
    with ToolIndex(path) as index:
        assert (kept(index), coverage(index).vectors) == (changed, len(changed))
        index.use_model("m")
        assert coverage(index).vectors == len(changed)
        assert index.check() == ()
        with index.reading() as reader:
            assert bool(reader.vector_table("m")) == bool(changed)
    check_sound(path)


def test_reading_without_the_extension_changes_nothing(path, fill, broken):
    with ToolIndex(path) as index:
        fill(index, TWO, model_id="m")
    for read_only in (False, True):
        with broken(), ToolIndex(path, read_only=read_only) as index:
            assert index.use_model("m")
            assert (coverage(index).vectors, len(kept(index))) == (2, 2)
            fill(index, TWO) if not read_only else None
    with ToolIndex(path) as index, index.reading() as reader:
        assert reader.vector_table("m") is not None


def test_abandoned_vector_tables_are_dropped_once_the_extension_is_back(path, fill, broken):
    with ToolIndex(path) as index:
        fill(index, TWO, model_id="m")
        fill(index, TWO, model_id="other")
    with broken(), ToolIndex(path) as index:
        fill(index, ONE)
    with ToolIndex(path) as index:
        index.use_model("m")
    assert len(vector_tables(path)) == 1


def test_a_vector_table_that_cannot_be_read_is_not_taken_for_damage(path, fill, broken):
    with ToolIndex(path) as index:
        fill(index, TWO, model_id="m")
    with broken(), ToolIndex(path) as index:
        with pytest.raises(DatabaseError, match="vec0") as caught, index.reading() as reader:
            reader.connection.execute("SELECT * FROM entries_vec")
        assert not isinstance(caught.value, DamagedDatabaseError)
        assert index.quarantine() is None


@given(
    steps=st.lists(
        st.tuples(
            st.booleans(),
            st.sampled_from(["none", "one", "two", "other", "embed", "use", "rebuild"]),
        ),
        max_size=12,
    )
)
def test_two_processes_agree_if_only_one_of_them_has_the_extension(
    tmp_path_factory, fill, broken, check_sound, steps
):
    path = tmp_path_factory.mktemp("both") / "search.db"
    contents = {"none": {}, "one": ONE, "two": TWO, "other": OTHER}
    with ToolIndex(path) as able:
        with broken():
            lacking = ToolIndex(path)
        with lacking:
            tools = {}
            for is_able, step in steps:
                index = able if is_able else lacking
                if step in contents:
                    tools = contents[step]
                    fill(index, tools)
                elif step == "embed":
                    fill(index, tools, model_id="m")
                elif step == "use":
                    index.use_model("m")
                else:
                    index.rebuild()
                assert coverage(able) == coverage(lacking)
                assert kept(able) == kept(lacking)
            fill(able, tools, model_id="m")
            able.use_model("m")
            assert able.check() == ()
            assert coverage(able).vectors == len(tools)
    check_sound(path)
