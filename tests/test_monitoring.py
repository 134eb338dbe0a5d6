"""The monitoring examples, checked against a server's metrics and by Prometheus."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio

MONITORING = Path(__file__).parents[1] / "examples" / "monitoring"
ALERTS = (MONITORING / "alerts.yml").read_text("utf-8")
BOARD = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))
# The labels that Prometheus adds to every series.
TARGET = {"job", "instance"}


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
def promtool(tmp_path):
    """Run promtool in a copy of the examples, and return its output."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed; on Debian and Ubuntu it is in `prometheus`")
    folder = tmp_path / "monitoring"
    shutil.copytree(MONITORING, folder)
    (folder / "token").write_text("geheim")

    def run(*arguments, **files):
        for name, text in files.items():
            (folder / f"{name}.yml").write_text(text)
        result = subprocess.run(
            [program, *arguments], cwd=folder, capture_output=True, text=True, timeout=PATIENCE
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run


async def scraped(command, variables, stderr):
    """Start a server whose model fails, use every feature, and return its metrics."""
    program = [*command, "serve", "--transport", "http", "--port", "0", "--tools", "call"]
    with stderr.open("w") as told:
        server = await anyio.open_process(program, env=variables, stderr=told)
    async with server:
        try:
            with anyio.fail_after(PATIENCE):
                while not (said := re.search(r"serving on (\S+) ", stderr.read_text())):
                    assert server.returncode is None, stderr.read_text()
                    await anyio.sleep(0.01)
                return await used(said[1])
        finally:
            server.kill()


async def used(url):
    headers = {"authorization": "Bearer geheim"}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE) as http:
        await http.get("/search", params={"q": "merge pdf files"})
        async with Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
            await client.call_tool("search_tools", {"query": "merge pdf files"})
            await client.call_tool("call_tool", {"id": "mcptools:pdf:merge_pdfs"})
        return (await http.get("/metrics")).text


async def test_the_examples_use_only_metrics_and_labels_that_exist(
    counted, environment, tree, tmp_path
):
    counted.fault.write_text("no key")
    variables = {
        "PYTOOLS_ROOT": str(tree),
        "PYTOOLS_DB_PATH": str(tmp_path / "index.db"),
        "PYTOOLS_TOKEN": "geheim",
    }
    metrics = await scraped(
        counted.command, environment | counted.variables | variables, tmp_path / "stderr"
    )

    labels = labels_of(metrics)
    told = dict(re.findall(r"^# HELP (\w+) (.*)$", metrics, re.M))
    expressions = [target for panel in BOARD["panels"] for target in panel.get("targets", ())]
    assert 'transport="mcp"' in metrics
    for expression, words in (*graphs(expressions), *rules()):
        named = names(expression)
        assert named.keys() <= labels.keys(), expression
        possible = set().union(*(labels[metric] for metric in named))
        for metric, matchers in named.items():
            assert matchers.keys() <= labels[metric], expression
            if "outcome" in matchers:
                assert all(it in told[metric] for it in matchers["outcome"].split("|")), expression
        grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", expression))))
        assert grouped <= possible, expression
        shown = set(re.findall(r"{{ ?(?:\$labels\.)?(\w+)", words)) - {"value"}
        assert shown <= (grouped or possible), words
    graphed = {name for target in expressions for name in names(target["expr"])}
    families = set(re.findall(r"^# TYPE (\w+)", metrics, re.M))
    assert families <= {re.sub("_bucket$", "", name) for name in graphed}


def labels_of(metrics):
    """Return the labels of each metric, except those of its target."""
    found = {"up": set(TARGET)}
    for name, labels in re.findall(r"^(\w+)(?:{(.*)})? \S+$", metrics, re.M):
        found[name] = TARGET | set(re.findall(r'(\w+)="', labels))
    return found


def names(expression):
    """Return the metrics in an expression, with the required values of their labels."""
    found = {}
    for name, matchers in re.findall(r"\b(pytools_\w+|up\b)(?:{([^}]*)})?", expression):
        found.setdefault(name, {}).update(re.findall(r'(\w+)=~?"([^"]*)"', matchers))
    return found


def graphs(targets):
    return [(target["expr"], target["legendFormat"]) for target in targets]


def rules():
    """Return the expression and the annotations of each alert."""
    found = re.findall(
        r"- alert:.*?expr:(.*?)\n +for:.*?annotations:(.*?)(?=- alert|\Z)", ALERTS, re.S
    )
    assert len(found) == ALERTS.count("- alert:") > 0
    return found


def test_prometheus_accepts_the_configuration_rules_and_dashboard_expressions(
    promtool,
):
    recorded = "groups:\n- name: dashboard\n  rules:\n"
    for number, target in enumerate(
        it for panel in BOARD["panels"] for it in panel.get("targets", ())
    ):
        expression = target["expr"].replace("$__rate_interval", "5m").replace("$", "")
        recorded += f"  - {{record: 'panel_{number}', expr: {json.dumps(expression)}}}\n"

    assert f"{ALERTS.count('- alert:')} rules" in promtool("check", "config", "prometheus.yml")
    promtool("check", "rules", "recorded.yml", recorded=recorded)


# What counters gain in a minute, and the values of gauges, of a healthy server and a failing one.
WELL_AND_NOT = {
    "up{job='pytools'%s}": ("1x130", "0x130"),
    "pytools_index_up_to_date{%s}": ("1x130", "0x130"),
    "pytools_tools{%s}": ("100x130", "100x90 40x40"),
    "pytools_searches_total{outcome='found'%s}": ("0+60x130", "0+6x130"),
    "pytools_searches_total{outcome='failed'%s}": ("0x130", "0+6x130"),
    "pytools_searches_total{outcome='empty'%s}": ("0+6x130", "0+60x130"),
    "pytools_search_seconds_bucket{le='0.1'%s}": ("0+60x130", "0x130"),
    "pytools_search_seconds_bucket{le='2.5'%s}": ("0+60x130", "0+60x130"),
    "pytools_search_seconds_bucket{le='+Inf'%s}": ("0+60x130", "0+60x130"),
    "pytools_search_channels_lost_total{channel='vector'%s}": ("0x130", "0+60x130"),
    "pytools_model_requests_total{use='query', model='m', outcome='failed'%s}": (
        "0x130",
        "0+9x130",
    ),
    "pytools_model_requests_total{use='query', model='m', outcome='answered'%s}": ("0+9x130",) * 2,
    "pytools_embedding_pending{%s}": ("100-10x10 0x120", "50x130"),
    "pytools_calls_total{category='pdf', outcome='ok'%s}": ("0+9x130", "0+9x130"),
    "pytools_calls_total{category='pdf', outcome='error'%s}": ("0x130", "0+9x130"),
    "pytools_http_requests_total{status='200'%s}": ("0+9x130", "0+9x130"),
    "pytools_http_requests_total{status='503'%s}": ("0x130", "0+9x130"),
    "pytools_mcp_sessions{%s}": ("3x130", "950x130"),
}


def test_a_failing_server_fires_every_alert_and_a_healthy_one_none(promtool):
    series = []
    for selector, values in WELL_AND_NOT.items():
        for instance, told in zip(("well", "ill"), values, strict=True):
            named = selector % f", instance='{instance}'".removeprefix(", " * ("{%" in selector))
            series.append({"series": named.replace("'", '"'), "values": told})
    wanted = [
        {"labels": f'{{alertname="{alert}", instance="ill"}}', "value": 1}
        for alert in re.findall(r"- alert: (\w+)", ALERTS)
    ]
    asked = {
        "expr": 'sum by (alertname, instance) (ALERTS{alertstate="firing"})',
        "eval_time": "130m",
        "exp_samples": wanted,
    }
    made = {"rule_files": ["alerts.yml"], "evaluation_interval": "5m"}
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [asked]}

    # JSON is YAML too.
    promtool("test", "rules", "t.yml", t=json.dumps(made | {"tests": [test]}))
