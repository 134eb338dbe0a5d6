"""Layouts map paths to ids; ids have words and texts to embed, and records hashes of these."""

import hashlib
import pickle
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolscan import LAYOUTS, Layout, ToolId, ToolScanError

mcptools, gentools = LAYOUTS["mcptools"], LAYOUTS["gentools"]
PARTS = st.text(min_size=1).filter(
    lambda text: not any(char in text for char in ":/\0") and text.isprintable()
)


@pytest.mark.parametrize(
    ("layout", "path", "expected"),
    [
        (mcptools, "mcptools/github/create_issue.py", "mcptools:github:create_issue"),
        (gentools, "gentools/data/clean/api.py", "gentools:data:clean"),
        (mcptools, "mcptools/github/create_issue.pyc", None),
        (mcptools, "mcptools/github/deep/create_issue.py", None),
        (mcptools, "other/github/create_issue.py", None),
        (mcptools, "mcptools/github/.py", None),
        (mcptools, "mcptools/github/__init__.py", None),
        (mcptools, "mcptools/_private/tool.py", None),
        (mcptools, "mcptools/git:hub/tool.py", None),
        (mcptools, "mcptools/github/a\nb.py", None),
        (gentools, "gentools/data/clean/impl.py", None),
        (Layout("s", "s/{category}/{name}.py"), "s/a.b/c.d.py", "s:a.b:c.d"),
        (Layout("s", "{name}/of/{category}/x.py"), "n/of/c/x.py", "s:c:n"),
        (Layout("s", "tools/{category}-{name}_tool.py"), "tools/a-b-c_tool.py", "s:a:b-c"),
        (Layout("s", "_tools/{category}/{name}.py"), "_tools/a/b.py", "s:a:b"),
    ],
)
def test_a_path_has_the_id_of_its_tool(layout, path, expected):
    found = layout.match(path)
    assert (found and str(found)) == expected


@given(PARTS, PARTS)
def test_the_path_of_an_id_has_that_id(category, name):
    for layout in (mcptools, gentools):
        found = layout.match(layout.path_of(category, name))
        if category.startswith("_") or name.startswith("_"):
            assert found is None
        else:
            assert found == ToolId(source=layout.source, category=category, name=name)


@pytest.mark.parametrize(
    "pattern",
    [
        "tools/{name}.py",
        "tools/{category}/{name}/{name}.py",
        "tools/{category}/{name}/{other}.py",
        "/tools/{category}/{name}.py",
        "tools//{category}/{name}.py",
        "../{category}/{name}.py",
        "",
    ],
)
def test_a_pattern_without_a_complete_id_is_refused(pattern):
    with pytest.raises(ToolScanError, match="is not a layout") as caught:
        Layout("tools", pattern)
    assert isinstance(caught.value, ValueError)


def test_a_source_that_cannot_be_part_of_an_id_is_refused():
    with pytest.raises(ToolScanError, match="contains ':'"):
        Layout("a:b", "{category}/{name}.py")


@pytest.mark.parametrize("text", ["", "a", "a:b", "a:b:c:d", "a::c", ":b:c", "a:b:", "a:b:\ud800"])
def test_a_text_that_is_not_an_id_is_refused(text):
    with pytest.raises(ToolScanError, match="is not a tool id") as caught:
        ToolId.parse(text)
    assert isinstance(caught.value, ValueError)


def test_ids_sort_by_their_parts_and_survive_pickling():
    ids = [ToolId.parse(text) for text in ("b:a:a", "a:b:a", "a:a:ü", "a:a:b")]
    assert [str(it) for it in sorted(ids)] == ["a:a:b", "a:a:ü", "a:b:a", "b:a:a"]
    assert pickle.loads(pickle.dumps(ids)) == ids


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("createPullRequest2", ["create", "pull", "request", "2"]),
        ("HTTPServer2", ["http", "server", "2"]),
        ("create_pull-request.v2", ["create", "pull", "request", "v", "2"]),
        ("XMLHttpRequest", ["xml", "http", "request"]),
        ("getURL", ["get", "url"]),
        ("URLs", ["urls"]),
        ("listPDFsAndIDs2", ["list", "pdfs", "and", "ids", "2"]),
        ("HTTPServers", ["http", "servers"]),
        ("GETsome", ["ge", "tsome"]),
        ("ＡＰＩ_ﬁnder", ["api", "finder"]),
        ("", []),
        ("__", []),
        ("ÉcoleÀParis", ["école", "à", "paris"]),
        ("E\u0301cole", ["école"]),
        ("größeMessen", ["größe", "messen"]),
        ("日本語Tool", ["日本語", "tool"]),
        ("नमस्ते", ["नमस्ते"]),
        ("x²", ["x", "2"]),
        ("a\N{FULLWIDTH LOW LINE}b", ["a", "b"]),
    ],
)
def test_words_are_split_at_case_digits_and_separators(text, words):
    assert ToolId.words_of(text) == words


@given(st.text())
def test_only_separators_and_case_are_lost(text):
    words = ToolId.words_of(text)
    assert all(words)
    assert "".join(words) == "".join(words).lower()
    letters = [char for char in unicodedata.normalize("NFKC", text).lower() if char.isalnum()]
    assert sum(char.isalnum() for char in "".join(words)) == len(letters)


@given(st.lists(st.text("abcxyz", min_size=1), min_size=1))
def test_snake_kebab_and_pascal_case_have_the_same_words(words):
    snake = "_".join(words)
    kebab = "-".join(words)
    pascal = "".join(word.title() for word in words)
    assert ToolId.words_of(snake) == ToolId.words_of(kebab) == words
    if all(len(word) > 1 for word in words):
        assert ToolId.words_of(pascal) == words


def test_the_embedded_text_is_name_category_description_and_the_names_of_parameters():
    tool = ToolId(source="mcptools", category="git_hub", name="createIssue")
    assert tool.embedding_text("Opens an issue.", []) == "create issue (git hub): Opens an issue."
    assert (
        tool.embedding_text("Opens an issue.", ["repoName", "body"])
        == "create issue (git hub): Opens an issue. repo name, body"
    )


def test_tags_that_the_description_lacks_come_before_the_parameters():
    tool = ToolId(source="mcptools", category="git_hub", name="createIssue")
    text = tool.embedding_text("Opens an Issue.", ["body"], tags=["issue", "bug tracker", "work"])
    assert text == "create issue (git hub): Opens an Issue. bug tracker, work body"


def test_a_tag_or_a_use_case_changes_the_text_hash(tool):
    plain = "def run():\n    'Does it.'\n"
    sources = (plain, f"__tags__ = ['x']\n{plain}", f"__use_cases__ = ['do more']\n{plain}")
    assert len({tool(source).text_hash for source in sources}) == 3


def test_a_name_without_words_is_embedded_as_it_is():
    tool = ToolId(source="s", category="+", name="☃")
    assert tool.embedding_text("d", ()) == "☃ (+): d"


def test_the_file_hash_covers_the_bytes_and_the_text_hash_the_text(tool):
    source = "def run():\n    'Does it.'\n"
    record = tool(source)
    assert record.file_hash == hashlib.sha256(source.encode()).hexdigest()
    text = b"thing (demo): Does it."
    expected = b"1:2%d:%b" % (len(text), text)
    assert record.text_hash == hashlib.sha256(expected).hexdigest()


def test_reformatting_a_file_keeps_the_text_hash(tool):
    first = tool("def run(a, b):\n    'Does it.'\n")
    second = tool('def run(\n    a,\n    b,\n):\n    """\n    Does it.\n    """\n')
    assert first.file_hash != second.file_hash
    assert first.text_hash == second.text_hash


def test_another_description_name_or_parameter_changes_the_text_hash(tool):
    first = tool("def run():\n    'Does it.'\n")
    second = tool("def run():\n    'Does that.'\n")
    third = tool("def run():\n    'Does it.'\n", "mcptools/demo/other.py")
    fourth = tool("def run(whom):\n    'Does it.'\n")
    assert len({each.text_hash for each in (first, second, third, fourth)}) == 4
