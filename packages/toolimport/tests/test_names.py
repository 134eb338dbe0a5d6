"""Names of folders and modules for servers and tools with any names."""

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolimport.generate._names import distinct_names, module_name


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
def test_a_module_is_called_after_its_tool_as_far_as_python_allows(name, module):
    assert module_name(name) == module


def test_a_name_that_was_given_stays_and_a_foreign_one_is_not_taken():
    known = {"git-hub": "git_hub", "other": "../x", "gone": "git_hub_2"}
    assert distinct_names(["git-hub", "git_hub", "other"], known) == {
        "git-hub": "git_hub",
        "git_hub": "git_hub_2",
        "other": "other",
    }


@given(st.text(max_size=300))
def test_every_name_gives_one_that_can_be_imported_found_and_stored(name):
    module = module_name(name)
    assert module.isidentifier()
    assert not keyword.iskeyword(module)
    assert not module.startswith("_")
    assert len(module.encode()) <= 110


@given(st.lists(st.text(max_size=20), unique=True))
def test_no_two_names_share_a_module_not_even_where_case_does_not_count(names):
    modules = distinct_names(names)
    assert list(modules) == names
    assert len({module.casefold() for module in modules.values()}) == len(names)


@given(st.lists(st.sampled_from(["get-x", "get_x", "GET_X", "get.x", "get_x_2", "other"])))
def test_the_order_in_which_a_server_lists_its_tools_changes_no_name(names):
    names = list(dict.fromkeys(names))
    assert distinct_names(names) == distinct_names(sorted(names))


def test_the_tool_that_is_spelled_like_the_module_keeps_it():
    assert distinct_names(["get-forecast", "get_forecast"]) == {
        "get-forecast": "get_forecast_2",
        "get_forecast": "get_forecast",
    }


def test_long_names_that_begin_alike_stay_apart():
    names = [f"{'x' * 200}{end}" for end in "ab"]
    assert len(set(distinct_names(names).values())) == 2
