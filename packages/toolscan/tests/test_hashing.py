"""The embedded text, and when hashes change."""

import hashlib

from toolscan import ToolId


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
