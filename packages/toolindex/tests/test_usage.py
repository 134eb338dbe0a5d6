"""The usage record is stored unchanged, summarized exactly, and deleted in time."""

import math
import time
from contextlib import closing, contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toolindex import ArgumentError, DamagedDatabaseError, UsageStatistics
from toolindex._connection import ConnectionPool
from toolindex._usage import (
    QUERY_LENGTH,
    OutcomeRecord,
    SearchRecord,
    UsageLog,
)

DAY = 86_400.0


@pytest.fixture
def pool(tmp_path):
    opened = ConnectionPool(tmp_path / "search.db", read_only=False)
    yield opened
    opened.close()


@pytest.fixture
def usage(pool):
    return UsageLog(pool)


@pytest.fixture(scope="module")
def reused(tmp_path_factory):
    """Return a log that property tests clear, which is faster than a new one for each example."""
    path = tmp_path_factory.mktemp("usage") / "search.db"
    with closing(ConnectionPool(path, read_only=False)) as opened:
        yield UsageLog(opened)


@pytest.fixture
def rows(pool):
    """Return the rows of a statement."""

    def select(sql):
        with pool.read() as connection:
            return connection.execute(sql).fetchall()

    return select


def search(id_, **fields):
    defaults = {"at": 0.0, "query": "send mail", "mode": "hybrid", "latency_ms": 1.0}
    return SearchRecord(id=id_, **{**defaults, "results": ("mail:send",), **fields})


def outcome(tool_id="mail:send", success=True, **fields):
    return OutcomeRecord(**{"at": 0.0, "tool_id": tool_id, "success": success, **fields})


def test_a_long_query_is_truncated(usage, rows):
    usage.record_searches([search("1", query="x" * 100_000)])
    assert rows("SELECT length(query) FROM searches") == [(QUERY_LENGTH,)]


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("argument", ["at", "latency_ms"])
@pytest.mark.parametrize("record", [lambda **fields: search("1", **fields), outcome])
def test_an_invalid_time_is_refused_before_it_is_written(record, argument, value):
    with pytest.raises(ArgumentError, match=f"{argument} is .*; give a finite number") as raised:
        record(**{argument: value})
    assert raised.value.argument == argument


def test_a_batch_is_written_completely_or_not_at_all(usage, rows):
    def breaking():
        yield outcome()
        raise RuntimeError

    with pytest.raises(RuntimeError):
        usage.record_outcomes(breaking())
    assert rows("SELECT * FROM outcomes") == []


def test_a_first_result_counts_as_accepted_if_its_use_succeeded(usage):
    usage.record_searches(
        [
            search("accepted", results=("a", "b")),
            search("failed", results=("a", "b")),
            search("second", results=("a", "b")),
            search("found_elsewhere", results=()),
            search("retried", results=("a", "b")),
            search("unjudged", results=("a", "b")),
        ]
    )
    usage.record_outcomes(
        [
            outcome("a", search_id="accepted"),
            outcome("a", success=False, search_id="failed"),
            outcome("a", success=False, search_id="second"),
            outcome("b", search_id="second"),
            outcome("b", search_id="found_elsewhere"),
            outcome("a", success=False, search_id="retried"),
            outcome("a", search_id="retried"),
            outcome("a"),
            outcome("a", search_id="forgotten"),
        ]
    )
    statistics = usage.statistics()
    assert (statistics.judged, statistics.first_accepted) == (5, 2)
    assert statistics.acceptance_rate == 0.4


def test_degraded_searches_are_counted_and_latencies_are_summarized(usage):
    usage.record_searches(search(str(n), latency_ms=float(n)) for n in range(1, 20))
    usage.record_searches([search("20", latency_ms=20.0, degraded=("vector", "fuzzy"))])
    statistics = usage.statistics()
    assert (statistics.searches, statistics.degraded) == (20, 1)
    assert (statistics.latency_p50_ms, statistics.latency_p95_ms) == (10.0, 19.0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.integers(1, 100))
def test_a_percentile_is_the_nearest_rank_value(values, percent):
    values.sort()
    expected = min(v for v in values if 100 * sum(w <= v for w in values) >= percent * len(values))
    assert UsageStatistics.percentile(values, percent) == expected


@pytest.fixture
def written(usage, rows):
    """Write records of some ages in days, apply the retention, and return the ages left."""

    def write(ages, *, max_age_days=90.0, max_rows=1_000):
        now = time.time()
        usage.record_searches(search(str(age), at=now - age * DAY) for age in ages)
        usage.record_outcomes([outcome(str(age), at=now - age * DAY) for age in ages])
        counts = usage.retain(max_age_days=max_age_days, max_rows=max_rows)
        left = [int(id_) for (id_,) in rows("SELECT id FROM searches ORDER BY rowid")]
        tools = [int(id_) for (id_,) in rows("SELECT tool_id FROM outcomes ORDER BY rowid")]
        assert left == tools
        assert counts == (len(ages) - len(left),) * 2
        return left

    return write


@pytest.mark.parametrize(
    ("ages", "max_rows", "left"),
    [
        pytest.param([5, 4, 3, 2, 1], 2, [2, 1], id="the oldest surplus"),
        pytest.param([-1000, 50, 1, 2], 2, [1, 2], id="written last, whatever the dates"),
        # As if the clock had jumped ahead by a year, and nothing had been recorded since.
        pytest.param([470, 400, 370], 9, [400, 370], id="age from the newest record"),
        pytest.param([50, -10_000, 40, 1], 9, [50, -10_000, 40, 1], id="one from the future"),
        pytest.param([-10_000, 95, 1], 9, [1], id="one from the future, and an old one after it"),
        pytest.param([-300, -200, -100], 9, [-300, -200, -100], id="the clock was set back"),
    ],
)
def test_records_are_retained_by_age_and_number(written, ages, max_rows, left):
    assert written(ages, max_rows=max_rows) == left


@pytest.mark.parametrize("limits", [(-1.0, 5), (math.nan, 5), (math.inf, 5), (1.0, -5)])
def test_an_invalid_retention_is_refused(usage, limits):
    with pytest.raises(ArgumentError):
        usage.retain(max_age_days=limits[0], max_rows=limits[1])


def test_summarizing_one_tool_reads_no_other_outcomes(pool, usage, monkeypatch):
    statements = []
    read = pool.read

    @contextmanager
    def traced():
        with read() as connection:
            connection.exec_trace = lambda _, *statement: statements.append(statement) or True
            yield connection
            connection.exec_trace = None

    monkeypatch.setattr(pool, "read", traced)
    usage.of_tool("a")
    with read() as connection:
        for sql, values in statements:
            if sql.startswith("SELECT"):
                (*_, plan), *_ = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)
                assert plan.startswith("SEARCH outcomes USING"), sql


# Reading the record


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1e12),
            st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
            st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=10), max_size=3),
            st.floats(0, 1e6),
        ),
        max_size=6,
    )
)
def test_searches_are_returned_as_recorded_oldest_first(reused, given_records):
    records = [
        search(
            str(number),
            at=at,
            query=query,
            results=tuple(results),
            latency_ms=latency,
            parameters={"limit": 5, "categories": ["mail"]},
            degraded=("vectors",),
        )
        for number, (at, query, results, latency) in enumerate(given_records)
    ]
    reused.clear()
    reused.record_searches(records)

    assert list(reused.searches()) == sorted(records, key=lambda record: record.at)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE searches SET results = 'no JSON'",
        "UPDATE searches SET parameters = '3'",
        "UPDATE searches SET latency_ms = -1",
        "UPDATE outcomes SET latency_ms = -1",
        "UPDATE outcomes SET latency_ms = 'soon'",
    ],
)
def test_an_unreadable_record_means_damage(usage, pool, damage):
    usage.record_searches([search("s")])
    usage.record_outcomes([outcome(latency_ms=1.0)])
    with pool.write() as connection:
        connection.execute(damage)

    with pytest.raises(DamagedDatabaseError):
        usage.searches(), usage.outcomes()
