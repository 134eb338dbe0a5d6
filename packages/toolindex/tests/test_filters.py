"""Filters apply within the search, so a search for five among many finds five."""

import json
import math
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolindex import ArgumentError, ToolFilter, ToolOutcomes
from toolindex._connection import ConnectionPool
from toolindex._filters import rowids


@dataclass
class Tool:
    """A tool and its outcomes: (success, latency)."""

    id: str
    path: str = "mcptools/mail/send.py"
    tags: list[str] = field(default_factory=list)
    outcomes: list[tuple[bool, float | None]] = field(default_factory=list)
    description: str = ""

    @property
    def source(self):
        return self.id.split(":")[0]

    @property
    def category(self):
        return self.id.split(":")[1]


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    opened = ConnectionPool(tmp_path_factory.mktemp("filters") / "search.db", read_only=False)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def fill(pool):
    """Fill the index with these tools and their outcomes, and nothing else."""

    def fill_index(tools):
        with pool.write() as connection:
            connection.execute("DELETE FROM entries; DELETE FROM outcomes")
            connection.executemany(
                "INSERT INTO entries VALUES (NULL, ?, ?, ?, '', ?, '', '', ?, '[]', ?, "
                "'', '', '', '', '', '', '', '', '', 0, NULL, NULL, NULL, NULL, '[]', '')",
                [
                    (t.id, t.source, t.category, t.path, t.description, json.dumps(t.tags))
                    for t in tools
                ],
            )
            connection.executemany(
                "INSERT INTO outcomes (at, tool_id, success, latency_ms) VALUES (0, ?, ?, ?)",
                [(t.id, success, latency) for t in tools for success, latency in t.outcomes],
            )

    return fill_index


@pytest.fixture(scope="module")
def allowed(pool):
    """Return the ids that pass a filter."""

    def ids(tool_filter):
        sql, parameters = rowids(tool_filter)
        with pool.read() as connection:
            rows = connection.execute(f"SELECT id FROM entries WHERE rowid IN ({sql})", parameters)
            return {id_ for (id_,) in rows}

    return ids


MAIL = Tool("mcptools:mail:send", "mcptools/mail/send.py", ["mail", "write"])
GIT = Tool("mcptools:git:log", "mcptools/git/log.py", ["read", "code"])
GITHUB = Tool("mcptools:github:issue", "mcptools/github/issue.py", ["write", "code"])
PDF = Tool("gentools:pdf:merge", "gentools/pdf/merge.py")
ALL = [MAIL, GIT, GITHUB, PDF]


def test_a_filter_can_have_any_number_of_names(fill, allowed):
    fill(ALL)
    many = [f"name_{n}" for n in range(50_000)]
    assert allowed(ToolFilter(categories=[*many, "git"])) == {GIT.id}
    assert allowed(ToolFilter(tags=[*many, "read"])) == set()
    assert allowed(ToolFilter(include=[*many, GIT.id])) == {GIT.id}
    assert allowed(ToolFilter(exclude=[*many, GIT.id])) == {MAIL.id, GITHUB.id, PDF.id}
    assert len(allowed(ToolFilter(min_success_rate=1, min_observations=10**30))) == len(ALL)


@pytest.mark.parametrize(
    ("pattern", "fitting"),
    [
        (
            "*",
            {"mcptools:a:b", "mcptools:a:B", "mcptools:a:bb", "mcptools:a:[b]", "mcptools:é:x\n"},
        ),
        ("mcptools:a:b", {"mcptools:a:b"}),
        ("mcptools:a:?", {"mcptools:a:b", "mcptools:a:B"}),
        ("*:?b?", {"mcptools:a:[b]"}),
        ("*:b*", {"mcptools:a:b", "mcptools:a:bb"}),
        ("*:[b]", {"mcptools:a:[b]"}),
        ("*:[Bb]", set()),
        ("*[*", {"mcptools:a:[b]"}),
        ("*:?:?\n", {"mcptools:é:x\n"}),
        ("mcptools", set()),
        ("a", set()),
        ("%", set()),
        ("", set()),
        ("mcptools:a:b\0*", set()),
        ("*\ud800*", set()),
    ],
)
def test_a_pattern_matches_the_whole_id_and_has_two_wildcards(fill, allowed, pattern, fitting):
    ids = ["mcptools:a:b", "mcptools:a:B", "mcptools:a:bb", "mcptools:a:[b]", "mcptools:é:x\n"]
    fill([Tool(id_) for id_ in ids])
    assert allowed(ToolFilter(include=[pattern])) == fitting
    assert allowed(ToolFilter(exclude=[pattern])) == set(ids) - fitting
    assert {id_ for id_ in ids if ToolFilter(include=[pattern]).passes_id(id_)} == fitting


def test_a_pattern_that_nearly_matches_causes_no_exponential_backtracking(fill, allowed):
    # With backtracking, this would take longer than the test may run.
    long_id = f"mcptools:a:{'a' * 200}"
    fill([Tool(long_id)])
    where = ToolFilter(include=["*a" * 60 + "*b"])
    assert not where.passes_id(long_id)
    assert allowed(where) == set()


@pytest.mark.parametrize(
    ("argument", "value", "advice"),
    [
        ("min_success_rate", -0.1, "from 0 to 1"),
        ("min_success_rate", 80, "from 0 to 1"),
        ("min_success_rate", math.nan, "from 0 to 1"),
        ("max_latency_ms", -1, "0 or more"),
        ("max_latency_ms", math.nan, "0 or more"),
        ("max_latency_ms", math.inf, "0 or more"),
        ("min_observations", 0, "1 or more"),
        ("unknown", "maybe", "'include' or 'exclude'"),
        ("categories", "mail", "in a list"),
        ("tags", "mail", "in a list"),
        ("include", "mcptools:*", "in a list"),
        ("exclude", "mcptools:*", "in a list"),
        ("include", [None], "something other than strings"),
        ("exclude", ["a" * 10_001], "over 10000 characters"),
    ],
)
def test_an_invalid_argument_is_refused_by_name(argument, value, advice):
    with pytest.raises(ArgumentError, match=advice) as raised:
        ToolFilter(**{argument: value})
    assert raised.value.argument == argument
    assert argument in str(raised.value)


@pytest.mark.parametrize("argument", ["categories", "tags", "include", "exclude"])
def test_names_may_come_from_an_iterator(argument):
    assert getattr(ToolFilter(**{argument: iter(["a", "b"])}), argument) == {"a", "b"}


# A few characters that collide often, some with a special meaning somewhere, and any others.
UNICODE = st.one_of(st.sampled_from("ab0/.%_*?[]'\"\\"), st.characters(exclude_categories=["Cs"]))
ANYTHING = st.one_of(UNICODE, st.characters())
NAMES = st.text(UNICODE.filter(lambda c: c not in ":/"), min_size=1, max_size=3)
SOME_NAMES = st.sampled_from(["a", "b", "a%", "aa", "é"]) | NAMES
TAGS = st.lists(SOME_NAMES, max_size=3)
PATHS = st.lists(SOME_NAMES.filter(lambda n: n != "."), min_size=1, max_size=4).map("/".join)
OUTCOMES = st.lists(
    st.tuples(st.booleans(), st.none() | st.sampled_from([0.0, 1.0, 2.0, 3.0])), max_size=7
)
TOOLS = st.lists(
    st.builds(
        Tool,
        st.tuples(SOME_NAMES, SOME_NAMES, SOME_NAMES).map(":".join),
        path=PATHS,
        tags=TAGS,
        outcomes=OUTCOMES,
    ),
    unique_by=lambda tool: tool.id,
    max_size=8,
)
ANY_NAME = SOME_NAMES | st.text(ANYTHING, max_size=4)
PATTERNS = st.one_of(
    st.lists(st.sampled_from(["*", "?", ":", "a", "b", "[", "é"]), max_size=7).map("".join),
    st.tuples(ANY_NAME, ANY_NAME, ANY_NAME).map(":".join),
    st.text(ANYTHING, max_size=6).map("*:{}*".format),
)
FILTERS = st.builds(
    ToolFilter,
    source=st.none() | ANY_NAME,
    categories=st.lists(ANY_NAME, max_size=3),
    tags=st.lists(ANY_NAME, max_size=2),
    path_prefix=st.none() | PATHS | st.text(ANYTHING, max_size=6),
    min_success_rate=st.none() | st.sampled_from([0.0, 0.5, 1.0]) | st.floats(0, 1),
    max_latency_ms=st.none() | st.sampled_from([0.0, 1.0, 2.0]),
    min_observations=st.integers(1, 6),
    unknown=st.sampled_from(["include", "exclude"]),
    include=st.lists(PATTERNS, max_size=3),
    exclude=st.lists(PATTERNS, max_size=2),
)


def fits(pattern, text):
    """Return whether a text matches a pattern, one character at a time."""
    if not pattern or not text:
        return not text and not pattern.strip("*")
    if pattern[0] == "*":
        return fits(pattern[1:], text) or fits(pattern, text[1:])
    return pattern[0] in ("?", text[0]) and fits(pattern[1:], text[1:])


def passes(wanted, tool):
    prefix = PurePosixPath(wanted.path_prefix or ".").parts
    latencies = sorted(ms for success, ms in tool.outcomes if success and ms is not None)
    successes = sum(success for success, _ in tool.outcomes)

    def judge(observations, judgement):
        if len(observations) < wanted.min_observations:
            return wanted.unknown == "include"
        return judgement()

    return (
        wanted.source in {None, tool.source}
        and (not wanted.categories or tool.category in wanted.categories)
        and set(wanted.tags) <= set(tool.tags)
        and (not wanted.include or any(fits(pattern, tool.id) for pattern in wanted.include))
        and not any(fits(pattern, tool.id) for pattern in wanted.exclude)
        and PurePosixPath(tool.path).parts[: len(prefix)] == prefix
        and (
            wanted.min_success_rate is None
            or judge(
                tool.outcomes, lambda: successes / len(tool.outcomes) >= wanted.min_success_rate
            )
        )
        and (
            wanted.max_latency_ms is None
            or judge(
                latencies,
                lambda: latencies[math.ceil(len(latencies) / 2) - 1] <= wanted.max_latency_ms,
            )
        )
    )


@given(TOOLS, FILTERS)
def test_a_filter_passes_the_tools_that_meet_all_its_conditions(fill, allowed, tools, wanted):
    fill(tools)
    expected = {tool.id for tool in tools if passes(wanted, tool)}
    if rowids(wanted) is None:
        assert expected == {tool.id for tool in tools}
    else:
        assert allowed(wanted) == expected
    by_pattern = ToolFilter(include=wanted.include, exclude=wanted.exclude)
    for tool in tools:
        assert by_pattern.passes_id(tool.id) == passes(by_pattern, tool)


@pytest.mark.parametrize(
    ("bounds", "outcomes", "judged"),
    [
        ({}, None, True),
        ({"min_success_rate": 0.5}, None, False),
        ({"min_success_rate": 0.5}, ToolOutcomes(2, 1), True),
        ({"min_success_rate": 0.5}, ToolOutcomes(1, 1), False),
        ({"max_latency_ms": 10}, ToolOutcomes(3, 0, 2, 5.0), False),
        ({"max_latency_ms": 10}, ToolOutcomes(3, 0, 3, 5.0), True),
    ],
)
def test_a_tool_is_judged_once_it_has_the_required_observations(bounds, outcomes, judged):
    assert ToolFilter(min_observations=3, **bounds).can_judge(outcomes) is judged


def test_only_a_filter_by_success_or_latency_uses_outcomes():
    assert not ToolFilter(unknown="exclude", min_observations=3).uses_outcomes
    assert ToolFilter(max_latency_ms=1).uses_outcomes
    assert ToolFilter(min_success_rate=1).uses_outcomes
