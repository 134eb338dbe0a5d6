"""Verbs: what a request asks for, compared with what a tool's name says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolrank._names import VERB_PENALTY, verb_priors


def verb_prior(request, name):
    return next(verb_priors(request, [name]))


@pytest.mark.parametrize(
    ("request_", "other", "same"),
    [
        ("open an issue", "get_issue", "create_issue"),
        ("please show me the issue", "create_issue", "get_issue"),
        ("can you add a calendar", "list_calendars", "createCalendar"),
        ("show the latest commits", "git_show", "git_log"),
        ("list all channels", "get_channel", "get_channels"),
        ("which branches are there", "create_branch", "list_branches"),
        ("get rid of the index", "create_index", "drop_index"),
        ("delete the file", "read_file", "remove-file"),
        ("stop the trace", "start_trace", "trace_stop"),
        ("start a new sprint", "get_sprint", "create_sprint"),
        ("write the file", "read_file", "write_file"),
        ("update a file", "search_files", "create_or_update_file"),
        ("I want to rename the sheet", "delete_sheet", "rename_sheet"),
    ],
)
def test_another_verb_lowers_the_score_and_a_synonym_does_not(request_, other, same):
    assert verb_prior(request_, other) == 1 - VERB_PENALTY
    assert verb_prior(request_, same) == 1.0


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        ("open the file", "create_file"),
        ("open issues of mine", "create_issue"),
        ("commits of last week", "create_commit"),
        ("find my notes", "create_note"),
        ("show the weather", "weather_forecast"),
        ("show the issue", "list_issues"),
        ("an issue is to be created", "get_issue"),
        ("", "get_issue"),
        ("please", "get_issue"),
        ("show it", ""),
    ],
)
def test_without_a_verb_in_query_or_name_nothing_changes(request_, name):
    assert verb_prior(request_, name) == 1.0


@given(st.text(), st.text())
def test_any_text_has_one_of_two_factors(request_, name):
    assert verb_prior(request_, name) in {1.0, 1 - VERB_PENALTY}
