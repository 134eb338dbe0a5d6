"""Names of folders and modules for servers and tools with any names."""

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolimport._generate._modules import distinct_names, module_name


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("create_issue", "create_issue"),
        ("get-forecast", "get_forecast"),
        ("CamelCaseTool", "camelcasetool"),
        ("API-patch-page", "api_patch_page"),
        ("3d/render:scene", "tool_3d_render_scene"),
        ("_hidden", "hidden"),
        ("__init__", "init__"),
        ("import", "import_"),
        ("con", "con_"),
        ("Größe", "größe"),
        ("ﬁle", "file"),
        ("../../etc/passwd", "etc_passwd"),
        ("天気", "天気"),
        ("***", "tool"),
        ("", "tool"),
    ],
)
def test_a_module_is_named_after_its_tool_as_far_as_python_allows(name, module):
    assert module_name(name) == module


def test_assigned_names_are_stable_and_names_of_other_files_are_avoided():
    known = {"git-hub": "git_hub", "other": "../x", "gone": "git_hub_2"}
    assert distinct_names(["git-hub", "git_hub", "other"], known) == {
        "git-hub": "git_hub",
        "git_hub": "git_hub_2",
        "other": "other",
    }


@given(st.text(max_size=300))
def test_every_tool_name_becomes_a_usable_module_name(name):
    module = module_name(name)
    assert module.isidentifier()
    assert not keyword.iskeyword(module)
    assert not module.startswith("_")
    assert len(module.encode()) <= 110


@given(st.lists(st.text(max_size=20), unique=True))
def test_no_two_tools_share_a_module_even_if_case_is_ignored(names):
    modules = distinct_names(names)
    assert list(modules) == names
    assert len({module.casefold() for module in modules.values()}) == len(names)


@given(st.lists(st.sampled_from(["get-x", "get_x", "GET_X", "get.x", "get_x_2", "other"])))
def test_module_names_do_not_depend_on_the_order_of_tools(names):
    names = list(dict.fromkeys(names))
    assert distinct_names(names) == distinct_names(sorted(names))


def test_a_tool_spelled_like_a_module_name_gets_that_name():
    assert distinct_names(["get-forecast", "get_forecast"]) == {
        "get-forecast": "get_forecast_2",
        "get_forecast": "get_forecast",
    }


def test_long_names_with_the_same_beginning_stay_distinct():
    names = [f"{'x' * 200}{end}" for end in "ab"]
    assert len(set(distinct_names(names).values())) == 2
