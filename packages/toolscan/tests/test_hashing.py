"""What is embedded, and when a hash changes."""

import hashlib

from toolscan import TEXT_VERSION, Parameter, ToolId, embedding_text


def test_the_embedded_text_is_name_category_and_description():
    tool = ToolId(source="mcptools", category="git_hub", name="createIssue")
    text = embedding_text(tool, "Opens an issue.", [])
    assert text == "create issue (git hub): Opens an issue."
    assert (
        embedding_text(tool, "Opens an issue.", [Parameter(name="a", annotation="", required=True)])
        == text
    )


def test_a_name_without_words_stands_for_itself():
    tool = ToolId(source="s", category="+", name="…")
    assert embedding_text(tool, "d", ()) == "… (+): d"


def test_the_file_hash_is_that_of_the_bytes_and_the_text_hash_that_of_the_text(tool):
    source = "def run():\n    'Does it.'\n"
    record = tool(source)
    assert record.file_hash == hashlib.sha256(source.encode()).hexdigest()
    text = b"thing (demo): Does it."
    version = str(TEXT_VERSION).encode()
    expected = b"%d:%b%d:%b" % (len(version), version, len(text), text)
    assert record.text_hash == hashlib.sha256(expected).hexdigest()


def test_reformatting_a_file_keeps_the_text_hash(tool):
    first = tool("def run(a, b):\n    'Does it.'\n")
    second = tool('def run(\n    a,\n    b,\n):\n    """\n    Does it.\n    """\n')
    assert first.file_hash != second.file_hash
    assert first.text_hash == second.text_hash


def test_another_description_or_name_is_another_text_hash(tool):
    first = tool("def run():\n    'Does it.'\n")
    second = tool("def run():\n    'Does that.'\n")
    third = tool("def run():\n    'Does it.'\n", "mcptools/demo/other.py")
    assert len({first.text_hash, second.text_hash, third.text_hash}) == 3
