"""`capabilities.toml`: read defensively and indexed; a mistake in it never harms the index."""

import asyncio
import logging
import os
import string
import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytools_hybrid import ToolSearch
from pytools_hybrid.index import (
    FILE_NAME,
    Capabilities,
    CapabilitiesError,
    Capability,
    Follower,
    SQLiteStore,
    TreeSync,
    parse_capabilities,
    read_text,
)
from pytools_hybrid.search import SearchMode
from pytools_hybrid.settings import Roots
from toolindex import ToolFilter

from .conftest import PATIENCE

ISSUE, COMMITS = "mcptools:github:create_issue", "mcptools:github:list_commits"
MERGE, SLUG = "mcptools:pdf:merge_pdfs", "gentools:text:slugify"
FILE = f"""
["{ISSUE}"]
use_cases = ["complain about a crash"]  # often asked
synonyms = ["ticket", "defect"]

["*:pdf:*"]
synonyms = ["acrobat", "ticket"]
"""


@pytest.fixture
def file(root):
    return root / FILE_NAME


@pytest.fixture
def store(tmp_path):
    with SQLiteStore(tmp_path / "store.db") as opened:
        yield opened


@pytest.fixture
def annotate(store, root):
    """Update the store; return how many tools have other aliases."""
    sync = TreeSync(store, root)

    def make():
        before = aliases(store)
        sync.scan()
        after = aliases(store)
        return sum(before.get(id_) != after.get(id_) for id_ in {*before, *after})

    return make


def aliases(store):
    with store.reading() as reader:
        found = reader.entries(reader.ids(ToolFilter()))
    return {id_: entry.aliases for id_, entry in found.items() if entry.aliases}


def parsed(text):
    return parse_capabilities(text, "capabilities.toml").entries


class TestReading:
    def test_a_missing_file_counts_as_empty(self, tmp_path):
        assert read_text(tmp_path / FILE_NAME) == read_text(tmp_path / "gone" / FILE_NAME) == ""
        assert parsed("") == {}

    @pytest.mark.parametrize("text", [f"\ufeff{FILE}", FILE.replace("\n", "\r\n")])
    def test_files_with_other_line_endings_and_byte_order_marks_are_read(self, text):
        assert parsed(text) == parsed(FILE)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("x = \n", "is not valid TOML: .*line 1"),
            ('["a"]\n["a"]', "is not valid TOML: .*line 2"),
            ("x = " + "[" * 5000, "is not valid TOML"),
            (
                '\n["a:b:c"]\nuse_cases = "text"',
                "line 2: use_cases of 'a:b:c' is not a list of strings",
            ),
            ('["a:b:c"]\nsynonyms = [1]', "line 1: synonyms of 'a:b:c' is not a list of strings"),
            ('["a"]\n[b]\nsynonym = ["x"]', "line 2: 'b' has 'synonym', but only use_cases"),
            ("[mcptools.shell]\nuse_cases = []", 'stands in quotation marks, as in \\["mcptools:'),
            ('["a"]\ntext_hash = 1', "line 1: text_hash of 'a' is not a string"),
            ('"a" = 1', "line 1: 'a' is not a table"),
            ('[["a"]]', "line 1: 'a' is not a table"),
            (f'["{"a" * 10_001}"]', "line 1: the id is too long"),
            ("x = " + "1" * 5000, "is not valid TOML"),
            (".".join("a" * 20_000) + " = 1", "a key with too many parts"),
            ('[ "\\"" . ' + "'b' . " * 20_000 + "c ]", "a key with too many parts"),
            ("x = { " + ".".join("a" * 20_000) + " = 1 }", "a key with too many parts"),
            ('["a"]\nx = """\n' + "[x\n" * 100_000 + '"""', "line 1: 'a' has 'x', but only"),
            ('["a"]\nx = """\n' + "[" * 5000 + '"""\n[b]\ny=1', "line 1: 'a' has 'x'"),
            ('["a"]\nx = [\n' + '["x"],\n' * 20_000 + "]", "line 1: 'a' has 'x', but only"),
            ('"""\n' + 'x\\"""\n' * 100_000, "is not valid TOML"),
            ('"' + '\\"' * 100_000, "is not valid TOML"),
        ],
    )
    def test_mistakes_are_reported_with_their_line(self, text, reason):
        with pytest.raises(CapabilitiesError, match=reason):
            parsed(text)

    @pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege on Windows")
    def test_an_unreadable_file_is_reported(self, tmp_path):
        file = tmp_path / FILE_NAME
        file.symlink_to(file)
        with pytest.raises(CapabilitiesError, match="cannot be read: Too many levels"):
            read_text(file)

    @pytest.mark.parametrize("make", [Path.mkdir, getattr(os, "mkfifo", Path.mkdir)])
    def test_a_pipe_is_reported_without_waiting_for_it(self, tmp_path, make):
        make(tmp_path / FILE_NAME)
        with pytest.raises(CapabilitiesError, match="it is not a regular file"):
            read_text(tmp_path / FILE_NAME)

    def test_a_file_that_is_not_utf8_is_reported_with_its_line(self, tmp_path):
        file = tmp_path / FILE_NAME
        file.write_bytes(b"# one\n# \xff\n")
        with pytest.raises(CapabilitiesError, match="line 2 is not UTF-8"):
            read_text(file)

    def test_an_endless_file_is_not_read_to_its_end(self, tmp_path):
        file = tmp_path / FILE_NAME
        with file.open("wb") as opened:
            opened.truncate((16 << 20) + 1)
        with pytest.raises(CapabilitiesError, match="larger than 16 MiB"):
            read_text(file)

    @given(st.text(max_size=60) | st.text(alphabet='[]"=#\n ab', max_size=60))
    def test_any_text_is_parsed_or_refused(self, text):
        try:
            entries = parsed(text)
        except CapabilitiesError:
            return
        assert set(entries) == set(tomllib.loads(text.removeprefix("\ufeff")))

    @given(
        st.dictionaries(
            st.text(max_size=8),
            st.fixed_dictionaries(
                {}, optional={"use_cases": st.lists(st.text()), "synonyms": st.lists(st.text())}
            ),
        )
    )
    def test_written_entries_are_read_back_unchanged(self, content):
        text = "".join(
            f"[{quoted(key)}]\n"
            + "".join(f"{name} = [{', '.join(map(quoted, of))}]\n" for name, of in table.items())
            for key, table in content.items()
        )
        expected = {
            key: Capability(
                **{name: tuple(t.strip() for t in of if t.strip()) for name, of in table.items()}
            )
            for key, table in content.items()
        }
        assert parsed(text) == expected


def quoted(text):
    return '"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"'


class TestAliases:
    def test_a_tools_own_entry_precedes_matching_patterns(self):
        said = Capabilities(parsed(FILE + f'["{MERGE}"]\nuse_cases = ["staple pages"]'))
        assert said.aliases([ISSUE, MERGE, SLUG]) == {
            ISSUE: ("complain about a crash", "ticket", "defect"),
            MERGE: ("staple pages", "acrobat", "ticket"),
        }

    def test_repeated_words_count_once(self):
        said = Capabilities(parsed(FILE + f'["{MERGE}"]\nsynonyms = ["acrobat"]'))
        assert said.aliases([MERGE]) == {MERGE: ("acrobat", "ticket")}


class TestAnnotating:
    def test_nothing_is_written_if_nothing_changed(self, annotate, file, store):
        file.write_text(FILE)
        annotate()
        with store.reading() as reader:
            before = reader.generation()
        assert annotate() == 0
        TreeSync(store, file.parent).scan()
        with store.reading() as reader:
            assert reader.generation() == before

    def test_changing_only_the_file_updates_the_aliases(self, annotate, file, store):
        file.write_text(FILE)
        annotate()
        # The same length, so that the file may have the same stamp.
        file.write_text(FILE.replace("defect", "defekt"))
        assert annotate() == 1
        assert "defekt" in aliases(store)[ISSUE]

    def test_a_tool_added_later_gets_its_aliases_from_the_file(
        self, annotate, file, store, write_tool
    ):
        file.write_text(FILE)
        annotate()
        write_tool("mcptools/pdf/split_pdfs.py", "Cut a document.")
        assert annotate() == 1
        with store.reading() as reader:
            (entry,) = reader.entries(["mcptools:pdf:split_pdfs"]).values()
        assert entry.aliases == ("acrobat", "ticket")

    def test_without_the_file_tools_have_no_aliases(self, annotate, file, store):
        file.write_text(FILE)
        annotate()
        file.unlink()
        assert annotate() == 2
        assert aliases(store) == {}

    def test_an_invalid_file_keeps_the_previous_aliases_and_is_reported_once(
        self, annotate, file, store, caplog
    ):
        file.write_text(FILE)
        annotate()
        before = aliases(store)
        file.write_text(FILE + "[broken\n")
        with caplog.at_level(logging.WARNING):
            assert annotate() == annotate() == 0
        assert aliases(store) == before
        (told,) = caplog.messages
        assert "capabilities.toml: is not valid TOML" in told
        assert "line 8" in told

    def test_a_file_invalid_from_the_start_keeps_the_aliases_of_the_index(
        self, annotate, file, store, write_tool
    ):
        file.write_text(FILE)
        annotate()
        before = aliases(store)
        file.write_text("[broken")
        write_tool("mcptools/pdf/split_pdfs.py", "Cut a document.")
        TreeSync(store, file.parent).scan()
        assert aliases(store) == before

    def test_a_repaired_file_applies_again(self, annotate, file, store):
        for text in (FILE, "[broken", FILE):
            file.write_text(text)
            annotate()
        assert len(aliases(store)) == 2

    def test_unknown_ids_are_reported_once_for_each_version_of_the_file(
        self, annotate, file, caplog, write_tool
    ):
        gone = "".join(f'["mcptools:gone:{letter}"]\n' for letter in string.ascii_lowercase[:7])
        with caplog.at_level(logging.WARNING):
            file.write_text(gone)
            annotate()
            write_tool("mcptools/pdf/split_pdfs.py", "Cut a document.")
            annotate()
            assert len(caplog.messages) == 1
            assert "'mcptools:gone:e' and 2 more" in caplog.messages[0]
            file.write_text('["mcptools:gone:a"]')
            annotate()
            assert len(caplog.messages) == 2

    def test_each_roots_file_applies_to_its_own_tools(self, tmp_path, root, store, caplog):
        other = tmp_path / "other"
        tool = other / "mcptools" / "pdf" / "split.py"
        tool.parent.mkdir(parents=True)
        tool.write_text("def run() -> None:\n    '''Cut.'''\n")
        roots = Roots.of([root, other])
        (root / FILE_NAME).write_text('["mcptools:pdf:*"]\nsynonyms = ["first"]')
        (other / FILE_NAME).write_text('["mcptools:*"]\nsynonyms = ["second"]')
        sync = TreeSync(store, roots)
        sync.scan()
        both = {MERGE: ("first",), "mcptools:pdf:split": ("second",)}
        assert aliases(store) == both
        (root / FILE_NAME).write_text("broken")
        (other / FILE_NAME).write_text("")
        sync.scan()
        assert aliases(store) == {MERGE: ("first",)}


class TestSearching:
    @pytest.mark.anyio
    async def test_searches_work_despite_an_invalid_file(self, root, file, settings):
        file.write_text("[broken")
        async with ToolSearch(root, settings(embedding_model="none")) as tools:
            await tools.index.update(vectors=False)
            response = await tools.search("history of a branch", mode=SearchMode.BM25)
            assert str(response.tools[0].entry.id) == COMMITS

    @pytest.mark.anyio
    async def test_a_server_follows_the_file(self, root, file, settings):
        async with ToolSearch(root, settings(embedding_model="none"), refresh=False) as tools:
            follower = Follower(tools.index)
            task = asyncio.create_task(follower.run())
            await follower.wait_until_ready()
            file.write_text(FILE)
            async with asyncio.timeout(PATIENCE):
                while not (await tools.search("acrobat", mode=SearchMode.BM25)).tools:
                    await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait([task])
