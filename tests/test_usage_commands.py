"""`pytools-hybrid report`, run as a user runs it."""

import csv
import io
import json
import time

import pytest
from toolindex import OutcomeRecord, SearchRecord, ToolIndex


@pytest.fixture
def used(tmp_path):
    """An index that was searched twice, where one search led to a success."""
    database = tmp_path / "index.db"
    # Yesterday at noon, so that the report by day has one line for both searches.
    now = (time.time() // 86_400 - 0.5) * 86_400
    asked = {"mode": "hybrid", "parameters": {"limit": 5}, "latency_ms": 12.5}
    found = SearchRecord(
        id="1", at=now - 60, query="merge two pdf files", results=("mcptools:pdf:merge_pdfs",),
        **asked,
    )  # fmt: skip
    nothing = SearchRecord(id="2", at=now - 30, query="zzz", results=(), **asked)
    outcome = OutcomeRecord(at=now, tool_id=found.results[0], success=True, search_id=found.id)
    with ToolIndex(database) as index:
        index.usage.record_searches([found, nothing])
        index.usage.record_outcomes([outcome])
    return database


def test_a_report_shows_searches_and_outcomes(run, used):
    done = run("report", "--db", used)

    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert lines[0] == "searches               2 (2 hybrid)"
    assert lines[1] == "without results        1 (50 %)"
    assert lines[3] == "with an outcome        1 (50 %)"
    assert lines[-1] == "    1 × zzz"


def test_a_report_can_be_json_or_csv_by_day(run, used):
    value = json.loads(run("report", "--db", used, "--output", "json").stdout)
    (day,) = csv.DictReader(io.StringIO(run("report", "--db", used, "--output", "csv").stdout))

    assert value["acceptance_rate"] == 1.0
    assert day["searches"] == "2"


def test_searches_are_exported_completely(run, used):
    rows = list(
        csv.DictReader(io.StringIO(run("report", "--db", used, "--export", "searches").stdout))
    )

    assert [row["query"] for row in rows] == ["merge two pdf files", "zzz"]
    assert json.loads(rows[0]["results"])[0] == "mcptools:pdf:merge_pdfs"


def test_outcomes_are_exported_completely(run, used):
    done = run("report", "--db", used, "--export", "outcomes", "--output", "json")

    (row,) = json.loads(done.stdout)
    assert (row["tool_id"], row["success"]) == ("mcptools:pdf:merge_pdfs", True)


def test_a_period_without_searches_is_reported_and_exported(run, used):
    done = run("report", "--db", used, "--export", "searches", "--since", "0")

    assert done.returncode == 1
    assert done.stdout == "id,at,query,mode,parameters,results,latency_ms,degraded\n"
    assert "no searches are recorded for the last 0 days" in done.stderr


def test_an_empty_record_is_reported(run, tmp_path):
    database = tmp_path / "index.db"
    ToolIndex(database).close()

    report = run("report", "--db", database)
    off = run("report", "--db", database, PYTOOLS_USAGE_LOG="false")
    exported = run("report", "--db", database, "--export", "outcomes", "--output", "json")

    assert report.returncode == off.returncode == exported.returncode == 1
    assert "no searches are recorded yet" in report.stderr
    assert "PYTOOLS_USAGE_LOG is off" in off.stderr
    assert json.loads(exported.stdout) == []


def test_without_an_index_a_report_fails_and_creates_none(run, tmp_path):
    done = run("report", "--db", tmp_path / "absent.db")

    assert done.returncode == 1
    assert "does not exist" in done.stderr
    assert not (tmp_path / "absent.db").exists()
