"""Trees in layouts other than freeact's: tools are found, described, called and followed."""

import asyncio
import sys
from pathlib import PurePosixPath

import pytest
from pytools_hybrid import BlockingToolSearch, Roots, SettingsError, ToolArgumentsError, load_tool
from pytools_hybrid.cli import main
from pytools_hybrid.index import SQLiteStore, TreeSync
from pytools_hybrid.settings import no_tools
from toolscan import LAYOUTS

FUNCTIONS = (LAYOUTS["functions"], LAYOUTS["modules"])


def function(name, says="Do it."):
    return f'def {name}(text: str) -> str:\n    """{says}"""\n    return text * 2\n'


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(**modules):
        for name, source in modules.items():
            file = tmp_path / "tree" / f"{name.replace('__', '/')}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            if source is None:
                file.unlink()
            else:
                file.write_text(source, encoding="utf-8")
        return tmp_path / "tree"

    return write


@pytest.fixture
def indexed(write, tmp_path):
    """Bring an index up to date with modules; return its ids and the report."""
    with SQLiteStore(tmp_path / "layouts.db") as store:

        def bring(layouts=FUNCTIONS, **modules):
            roots = Roots.of(write(**modules), layouts)
            report = TreeSync(store, roots).scan()
            again = TreeSync(store, roots).scan()
            assert (again.added, again.updated, again.removed) == (0, 0, 0)
            held = store.stored(reader_version=roots.reader_version).entries
            return sorted(held), (report.added, report.updated, report.removed)

        bring.store = store
        yield bring


def test_the_functions_of_a_module_are_found_described_and_called(write, settings):
    root = write(
        own_mail=function("send", "Send a message to somebody.")
        + function("sort", "Order letters."),
        own_pdf__merge=function("merge_documents", "Combine documents."),
    )
    with BlockingToolSearch(root, settings(layouts=("functions", "modules"))) as tools:
        hits = [tools.search(query, limit=1)[0] for query in ("message", "combine documents")]
        described = tools.describe("functions:own_mail:send", detail="full")

    assert [hit.id for hit in hits] == ["functions:own_mail:send", "modules:own_pdf:merge"]
    assert described.stub.startswith("from own_mail import send\n")
    assert described.input_schema["required"] == ["text"]
    for hit in hits:
        assert asyncio.run(load_tool(hit).call({"text": "a"})) == "aa"


DECORATED = '''
from functools import lru_cache
from pydantic_ai import Tool as tool

@tool
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()

@tool
@lru_cache
def repeat(text: str, times: int = 2) -> str:
    """Say it again."""
    return text * times
'''


def test_a_function_wrapped_by_a_tool_decorator_is_called(write, settings):
    root = write(own_voice=DECORATED)
    with BlockingToolSearch(root, settings(layouts="functions")) as tools:
        shout, repeat = (load_tool(tools.search(it, limit=1)[0]) for it in ("loudly", "again"))

    assert asyncio.run(shout.call({"text": "a"})) == "A"
    assert asyncio.run(repeat.call({"text": "a", "times": 3})) == "aaa"
    with pytest.raises(ToolArgumentsError):
        asyncio.run(repeat.call({"text": "a", "times": "x"}))


def test_an_index_follows_the_functions_of_a_module(indexed):
    both = function("one") + function("two")
    assert indexed(a=both, b=function("three"))[0] == [
        "functions:a:one",
        "functions:a:two",
        "functions:b:three",
    ]
    # Removed, renamed, moved between modules, broken and repaired, and the module moved.
    assert indexed(a=function("one"))[1] == (0, 1, 1)
    assert indexed(a=function("uno"))[1] == (1, 0, 1)
    assert indexed(a=function("four"), b=function("uno"))[0] == [
        "functions:a:four",
        "functions:b:uno",
    ]
    assert indexed(a="def four(:")[0] == ["functions:b:uno"]
    assert indexed(a=both)[0] == ["functions:a:one", "functions:a:two", "functions:b:uno"]
    assert indexed(a=None, c=both)[0] == ["functions:b:uno", "functions:c:one", "functions:c:two"]


def test_functions_that_a_package_exports_are_called_and_followed(write, settings):
    merge = (
        "from pydantic import BaseModel\n\nclass Params(BaseModel):\n    pages: int\n\n"
        "def merge(params: Params) -> int:\n    '{}'\n    return params.pages * 2\n"
    )
    root = write(own_docs___merge=merge.format("Combine documents."))
    init = "from ._merge import merge\n\n__all__ = ['merge']\n"
    (root / "own_docs/__init__.py").write_text(init, encoding="utf-8")
    with SQLiteStore(root.parent / "packages.db") as store:
        roots = Roots.of(root, [LAYOUTS["packages"]])
        assert TreeSync(store, roots).scan().added == 1
        write(own_docs___merge=merge.format("Put files together."))
        report = TreeSync(store, roots).scan([PurePosixPath("own_docs/_merge.py")])
        assert (report.added, report.updated, report.removed) == (0, 1, 0)
    with BlockingToolSearch(root, settings(layouts=("packages",))) as tools:
        (hit,) = tools.search("put files together")
        assert hit.description == "Put files together."
        assert asyncio.run(load_tool(hit).call({"pages": 2})) == 4


def test_a_kill_between_portions_loses_no_function_of_a_module(indexed, write, monkeypatch):
    many = "".join(function(f"f{number}") for number in range(300))
    roots = Roots.of(write(a=many, b=many), FUNCTIONS)

    sync, updates = indexed.store.sync, []

    def sync_once(*args, **options):
        if updates:
            raise KeyboardInterrupt
        updates.append(sync(*args, **options))
        return updates[0]

    monkeypatch.setattr(indexed.store, "sync", sync_once)
    with pytest.raises(KeyboardInterrupt):
        TreeSync(indexed.store, roots).scan()
    monkeypatch.undo()

    assert len(indexed()[0]) == 600


def test_each_layout_has_its_own_index(write, settings):
    root, given = write(a=function("one")), [("functions",), ("mcptools", "gentools"), ("modules",)]

    assert len({settings(layouts=it, db_path=None).resolved_database(root) for it in given}) == 3


def test_other_layouts_read_the_same_files_again(indexed):
    indexed(pdf__merge=function("merge"))

    assert indexed(layouts=(LAYOUTS["mcptools"],))[0] == []
    assert indexed(layouts=FUNCTIONS)[0] == ["modules:pdf:merge"]


def test_for_a_tree_in_another_layout_the_message_names_those_that_fit(write, capsys):
    root = write(mail=function("send"), pdf__merge=function("merge"))

    assert no_tools(Roots.of(root)).endswith(
        f"{root} has tools in another layout: set PYTOOLS_LAYOUTS=modules,functions"
    )
    with pytest.raises(SystemExit):
        main(["status", "--root", str(root)])
    assert "PYTOOLS_LAYOUTS=modules,functions" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("layouts", "says"),
    [
        ("function", "did you mean functions"),
        ("modules,modules", "given twice"),
        ("own=lib/{name}.py", "is not a layout"),
        (" , ", "it is empty"),
    ],
)
def test_an_invalid_layout_is_refused(settings, layouts, says):
    with pytest.raises((SettingsError, ValueError), match=says):
        settings(layouts=layouts)


def test_an_empty_index_that_is_not_synced_does_not_advise_the_layouts_in_force(write, settings):
    root = write(text="def slug(text):\n    'Make a slug.'\n")
    for layouts in ("functions", "mcptools,functions", "f={category}.py"):
        chosen = settings(layouts=layouts, sync=False, db_path=None)
        with BlockingToolSearch(root, chosen) as tools:
            (note,) = tools.search("slug").notes
        assert note == f"the index of {root} is empty; syncing is off: run pytools-hybrid index"
    with BlockingToolSearch(root, settings(sync=False)) as tools:
        (note,) = tools.search("slug").notes
    assert f"{root} has tools in another layout: set PYTOOLS_LAYOUTS=functions" in note
