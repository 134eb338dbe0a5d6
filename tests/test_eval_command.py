"""`pytools-hybrid eval`, run as a user runs it."""

import json
import math
import signal
import subprocess
import sys
import time

import pytest

from .conftest import PATIENCE

MERGE, INVOICE = "mcptools:pdf:merge_pdfs", "mcptools:finance:create_invoice"
# An exact name ranks first in every mode, so all figures can be computed by hand.
QUERIES = [
    {"id": "q1", "query": "merge_pdfs", "gold": [MERGE], "kind": "name"},
    {"id": "q2", "query": "create_invoice", "gold": [INVOICE, "mcptools:finance:gone"]},
    {"id": "q3", "query": "create_invoice", "gold": [INVOICE], "kind": "name"},
    {"id": "q4", "query": "reheat the soup", "gold": [MERGE]},
]
# As on a busy machine, which may not clean up in the half second after a signal.
WITHOUT_GRACE = (
    *(sys.executable, "-c"),
    "from pytools_hybrid.cli import app, main; app.run.__kwdefaults__['grace'] = 0.0; main()",
)
ROWS = ["bm25", "vector", "hybrid", "hybrid (rrf)"]


@pytest.fixture
def queries(tmp_path):
    file = tmp_path / "queries.jsonl"
    file.write_text("".join(json.dumps(query) + "\n" for query in QUERIES), encoding="utf-8")
    return file


@pytest.fixture
def evaluate(run, examples, queries):
    def run_eval(*arguments, root=examples, file=queries, **variables):
        return run("eval", "--root", root, "--queries", file, *arguments, **variables)

    return run_eval


def assert_refused(result, flag, *parts):
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.startswith(f"error: {flag}: ")
    assert all(part in result.stderr for part in parts), result.stderr
    assert "Traceback" not in result.stderr


def test_json_output_has_the_figures_of_each_mode(evaluate):
    result = evaluate("--mode", "bm25", "--output", "json")

    assert result.returncode == 0
    report = json.loads(result.stdout)
    assert (report["queries"], report["tools"], report["model"]) == (4, 119, "static")
    assert list(report["modes"]) == ["bm25"]
    found = report["modes"]["bm25"]
    # At rank one, q1 and q3 have all their right tools, q2 one of two, q4 none.
    assert {key: found[f"recall@{key}"] for key in (1, 3, 5, 10)} == dict.fromkeys(
        (1, 3, 5, 10), (1 + 1 / 2 + 1 + 0) / 4
    )
    half = 1 / (1 + 1 / math.log2(3))
    assert found["ndcg@10"] == pytest.approx((1 + half + 1 + 0) / 4, abs=1e-6)
    assert found["mrr"] == found["hit@3"] == 3 / 4
    assert found["completeness@10"] == 2 / 4
    assert found["failures"] == ["q4"]
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["p95"]
    assert report["best"] is None


def test_a_missing_gold_tool_is_reported_and_counts_as_missed(evaluate):
    result = evaluate("--mode", "bm25", "--output", "json")

    assert (
        "warning: 1 of 3 gold ids is not in the index; the query that names it counts nevertheless:"
        "\n  mcptools:finance:gone: no tool at mcptools/finance/gone.py\n"
    ) in result.stderr
    assert json.loads(result.stdout)["unknown_gold"]["count"] == 1


def test_the_table_compares_all_modes_and_says_which_to_use(evaluate):
    result = evaluate("--recall-at", "1,7", "--group-by", "kind")

    assert result.returncode == 0
    first, table, by_kind, verdict = result.stdout.rstrip("\n").split("\n\n")
    assert first == "4 queries, 119 tools, model static"
    header, *rows = table.splitlines()
    assert header.split()[:4] == ["mode", "recall@1", "recall@7", "ndcg@10"]
    assert [row.split("  ")[0] for row in rows] == ROWS
    assert [line.split()[:2] for line in by_kind.splitlines()[2:]] == [
        ["(none)", "2"],
        ["name", "2"],
    ]
    assert "it is what searches use with your settings" in verdict


def test_without_vectors_only_words_are_compared(evaluate):
    report = json.loads(evaluate("--model", "none", "--output", "json").stdout)

    assert list(report["modes"]) == ["bm25"]
    assert report["best"] is None


def test_an_index_does_not_overwrite_the_queries(run, examples, queries):
    before = queries.read_bytes()

    result = run(
        "eval",
        "--root",
        examples,
        "--queries",
        queries,
        "--database=queries.jsonl",
        cwd=queries.parent,
    )

    assert_refused(result, "--database", "contains the queries", "name another file")
    assert queries.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "Invalid JSON"),
        ('{"id": "q9", "query": "x"}', '"gold": Field required'),
        ('{"id": "q1", "query": "x", "gold": ["a:b:c"]}', "the id 'q1' occurs twice"),
    ],
)
def test_an_invalid_line_is_reported_with_an_example(evaluate, queries, line, problem):
    with queries.open("a", encoding="utf-8") as file:
        file.write(line + "\n")

    assert_refused(evaluate(), "--queries", f"{queries}:5: {problem}", 'write lines as {"id"')


def test_gold_tools_of_any_layout_are_known(run, tmp_path):
    folder = tmp_path / "tools"
    (folder / "scripts" / "pdf").mkdir(parents=True)
    (folder / "scripts" / "pdf" / "merge.py").write_text("def run():\n    'Merge.'\n", "utf-8")
    (folder / "scripts" / "pdf" / "split.py").write_text("def run(:\n", "utf-8")
    (folder / "text.py").write_text("def slug():\n    'Make a slug.'\n", "utf-8")
    file = tmp_path / "own.jsonl"
    gold = ["scripts:pdf:merge", "scripts:pdf:split", "functions:text:trim", "mcptools:a:b"]
    file.write_text(json.dumps({"id": 1, "query": "merge", "gold": gold}), encoding="utf-8")
    layouts = "functions,scripts=scripts/{category}/{name}.py"

    result = run(
        *("eval", "--root", folder, "--queries", file, "--model", "none"), PYTOOLS_LAYOUTS=layouts
    )

    assert result.returncode == 0, result.stderr
    assert "scripts:pdf:split: scripts/pdf/split.py was left out: Line 1: " in result.stderr
    assert "functions:text:trim: text.py contains no tool trim" in result.stderr
    assert "mcptools:a:b: the layouts have no source 'mcptools', only " in result.stderr


def test_queries_of_another_tree_are_refused(evaluate, tmp_path):
    file = tmp_path / "others.jsonl"
    file.write_text('{"id": 1, "query": "x", "gold": ["mcptools:a:b"]}\n', encoding="utf-8")

    result = evaluate("--model", "none", file=file)

    assert result.returncode == 2
    assert "error: --queries: no gold id is among the tools of " in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize(
    ("number", "program"),
    [(signal.SIGINT, ()), (signal.SIGTERM, ()), (signal.SIGTERM, WITHOUT_GRACE)],
    ids=["SIGINT", "SIGTERM", "no time to clean up"],
)
def test_a_signal_leaves_no_temporary_index(
    command, environment, examples, tmp_path, number, program
):
    many = tmp_path / "many.jsonl"
    # More than any machine answers before the signal.
    lines = [json.dumps({"id": n, "query": f"report {n}", "gold": [MERGE]}) for n in range(50_000)]
    many.write_text("\n".join(lines), encoding="utf-8")
    folder = tmp_path / "temporary"
    folder.mkdir()
    with subprocess.Popen(
        [
            *(*(program or [command]), "eval", "--root", examples),
            *("--queries", many, "--model", "none"),
        ],
        env=environment | {"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            deadline = time.monotonic() + PATIENCE
            # Wait for the temporary copy of the index.
            while not [*folder.glob("pytools-hybrid-*/*/index.db")]:
                assert process.poll() is None
                assert time.monotonic() < deadline

            process.send_signal(number)

            output, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 128 + number
    assert output == ""
    assert errors.splitlines()[-1] == "interrupted"
    assert "Traceback" not in errors
    assert list(folder.glob("pytools-hybrid-*")) == []
