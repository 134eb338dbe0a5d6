"""Figures and exports of the usage record."""

import csv
import io
import json
from datetime import UTC, date, datetime

from pytools_hybrid.reports.usage import (
    as_text,
    outcome_days,
    records_table,
    table_as_csv,
    table_as_json,
    usage_report,
)
from toolindex import OutcomeRecord, SearchRecord

MONDAY = datetime(2026, 3, 2, 23, 59, tzinfo=UTC).timestamp()
TUESDAY = datetime(2026, 3, 3, 0, 1, tzinfo=UTC).timestamp()


def search(id_, at=MONDAY, *, query="send mail", results=("mail:send", "mail:read"), **fields):
    defaults = {"mode": "hybrid", "latency_ms": 10.0}
    return SearchRecord(id=id_, at=at, query=query, results=results, **{**defaults, **fields})


def outcome(search_id, tool_id="mail:send", *, success=True, **fields):
    fields = {"at": TUESDAY, "latency_ms": None, **fields}
    return OutcomeRecord(tool_id=tool_id, success=success, search_id=search_id, **fields)


def test_queries_without_results_are_counted_most_frequent_first():
    queries = ["fly", "swim", "swim", "walk"]
    searches = [search(str(n), query=query, results=()) for n, query in enumerate(queries)]

    report = usage_report([*searches, search("found")], [])

    assert report.queries_without_results == (("swim", 2), ("fly", 1), ("walk", 1))
    assert report.total.share_without_results == 0.8


def test_queries_are_counted_and_those_whose_tools_failed_are_listed():
    searches = [search("a"), search("b"), search("c", query="read mail"), search("d", query="go")]
    outcomes = [
        outcome("a"),
        outcome("c", success=False),
        outcome("d", success=False),
        outcome("d"),
    ]

    report = usage_report([*searches, search("e", query="fly", results=())], outcomes)

    assert report.queries == (("send mail", 2), ("fly", 1), ("go", 1), ("read mail", 1))
    assert report.queries_failed == (("read mail", 1),)


def test_the_outcomes_of_a_tool_are_counted_by_day():
    first, second = outcome_days(
        [
            outcome("a", at=MONDAY, latency_ms=5.0),
            outcome("b", at=MONDAY, success=False),
            outcome("c", latency_ms=7.0),
        ]
    ).items()

    assert first[0] == date(2026, 3, 2)
    assert (first[1].outcomes, first[1].successes, first[1].latency_p50_ms) == (2, 1, 5.0)
    assert (second[1].outcomes, second[1].success_rate) == (1, 1.0)


def test_a_search_is_accepted_if_a_tool_that_it_found_succeeded():
    searches = [search("first"), search("second"), search("failed"), search("unjudged")]
    outcomes = [
        outcome("first", "mail:send"),
        outcome("second", "mail:read"),
        outcome("failed", success=False),
        outcome("of a search that is not in the record"),
        outcome(None),
    ]

    total = usage_report(searches, outcomes).total

    assert (total.judged, total.accepted, total.first_accepted) == (3, 2, 1)
    assert total.share_judged == 3 / 4
    assert total.acceptance_rate == 1 / 3


def test_a_success_of_a_tool_that_was_not_found_does_not_accept_a_search():
    total = usage_report([search("a", results=())], [outcome("a")]).total

    assert (total.judged, total.accepted, total.first_accepted) == (1, 0, 0)


def test_outcomes_and_searches_are_counted_for_each_tool():
    outcomes = [
        outcome(None, latency_ms=5.0),
        outcome(None, latency_ms=7.0),
        outcome(None, latency_ms=900.0, success=False),
        outcome(None, "mail:gone", success=False),
    ]

    first, second = usage_report([search("a"), search("b")], outcomes).tools

    assert (first.tool_id, first.outcomes, first.successes, first.found) == ("mail:send", 3, 2, 2)
    assert first.success_rate == 2 / 3
    assert (first.latency_p50_ms, first.latency_p95_ms) == (5.0, 7.0)
    assert (second.tool_id, second.found, second.latency_p50_ms) == ("mail:gone", 0, None)


SOME = usage_report(
    [
        search("a", degraded=("vectors",)),
        search("b", TUESDAY, mode="bm25", latency_ms=30.0),
        search("c", TUESDAY, query="fly\x1b[31m to\nthe moon", results=()),
    ],
    [outcome("a", latency_ms=2.5), outcome("b", success=False)],
)


def test_a_report_as_text_has_totals_days_tools_and_queries():
    assert as_text(SOME).splitlines() == [
        "searches               3 (1 bm25, 2 hybrid)",
        "without results        1 (33 %)",
        "degraded searches      1 (33 %)",
        "with an outcome        2 (67 %)",
        "a result succeeded     1 (50 %) of these",
        "the first succeeded    1 (50 %) of these",
        "search latency         p50 10.0 ms, p95 30.0 ms",
        "outcomes               2",
        "",
        "day (UTC)   searches  no result  outcome  first ok      p50      p95",
        "2026-03-02         1          0        1     100 %  10.0 ms  10.0 ms",
        "2026-03-03         2          1        1       0 %  10.0 ms  30.0 ms",
        "",
        "tool       outcomes  success  found     p50     p95",
        "mail:send         2     50 %      2  2.5 ms  2.5 ms",
        "",
        "top queries",
        "    2 × send mail",
        "    1 × fly [31m to the moon",
        "",
        "queries without results",
        "    1 × fly [31m to the moon",
        "",
        "queries whose tools failed",
        "    1 × send mail",
    ]


def test_a_long_report_is_truncated_and_says_so():
    day = 86_400.0
    searches = [search(str(n), n * day) for n in range(20)]
    outcomes = [outcome(None, f"mail:tool_{n}") for n in range(20)]

    text = as_text(usage_report(searches, outcomes))

    assert "… and 6 earlier days: --output csv has them all" in text
    assert "… and 5 more tools: --output json has them all" in text


def test_searches_are_exported_with_all_fields():
    record = search("a", query='say "hi",\nthen wait', parameters={"limit": 5})

    (row,) = csv.DictReader(io.StringIO(table_as_csv(records_table(SearchRecord, [record]))))
    (value,) = json.loads(table_as_json(records_table(SearchRecord, [record])))

    assert row["query"] == value["query"] == 'say "hi",\nthen wait'
    assert row["at"] == value["at"] == "2026-03-02T23:59:00.000+00:00"
    assert json.loads(row["results"]) == value["results"] == ["mail:send", "mail:read"]
    assert json.loads(row["parameters"]) == value["parameters"] == {"limit": 5}


def test_outcomes_are_exported_with_all_fields():
    text = table_as_csv(records_table(OutcomeRecord, [outcome("s", latency_ms=1.5), outcome(None)]))

    assert text.splitlines() == [
        "at,tool_id,success,latency_ms,search_id",
        "2026-03-03T00:01:00.000+00:00,mail:send,true,1.5,s",
        "2026-03-03T00:01:00.000+00:00,mail:send,true,,",
    ]
