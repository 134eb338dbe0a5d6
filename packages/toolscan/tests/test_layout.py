"""Layouts map paths to ids."""

import pickle

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
