"""Which search of a session has listed a tool last."""

import time

from pytools_hybrid.serve.tools import RecentSearches

A, B, C = "mcptools:mail:a", "mcptools:mail:b", "mcptools:mail:c"


def test_the_last_search_of_the_same_session_that_listed_a_tool_is_returned():
    recent = RecentSearches()
    recent.add("one", "1", [A, B])
    recent.add("one", "2", [A])
    recent.add("two", "3", [B])

    assert [recent.search_of("one", it) for it in (A, B, C)] == ["2", "1", None]
    assert [recent.search_of("two", it) for it in (A, B, C)] == [None, "3", None]


def test_clients_without_a_session_share_no_search():
    recent = RecentSearches()
    recent.add(None, "1", [A])

    assert recent.search_of(None, A) is None


def test_the_tools_listed_first_are_forgotten_first():
    recent = RecentSearches()
    recent.add("one", "1", [A, B])
    recent.add("one", "2", [A, *(f"mcptools:many:tool_{number}" for number in range(19_999))])

    assert [recent.search_of("one", it) for it in (A, B)] == ["2", None]


def test_a_search_is_forgotten_after_a_while(monkeypatch):
    recent = RecentSearches()
    recent.add("one", "1", [A])
    later = time.monotonic() + 3601
    monkeypatch.setattr(time, "monotonic", lambda: later)

    assert recent.search_of("one", A) is None
