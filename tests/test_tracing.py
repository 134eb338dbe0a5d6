"""Traces of the installed server, received by a collector."""

import json
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from .conftest import PATIENCE

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@contextmanager
def collector():
    """Receive traces, and yield the address and the received requests."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces":
                received.extend(ExportTraceServiceRequest.FromString(body).resource_spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()


async def test_opentelemetry_variables_set_where_traces_are_sent(connect, tree, home):
    with collector() as (address, received):
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": address,
            "OTEL_EXPORTER_OTLP_TIMEOUT": str(PATIENCE),
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=tests",
            "PYTOOLS_LOG_LEVEL": "INFO",
            "PYTOOLS_LOG_FORMAT": "json",
            "NO_PROXY": "127.0.0.1",
        }
        async with connect("--root", tree, **variables) as client:
            await client.call_tool("search_tools", {"query": "merge pdf files"})
            await client.call_tool("describe_tool", {"id": "nothing"})

    about = [
        {it.key: it.value.string_value for it in each.resource.attributes} for each in received
    ]
    scopes = [of for each in received for of in each.scope_spans]
    spans = {span.name: span for of in scopes for span in of.spans}
    assert {each["service.name"] for each in about} == {"pytools-hybrid"}
    assert about[0]["deployment.environment.name"] == "tests"
    search, request = spans["retrieval tools"], spans["tools/call search_tools"]
    assert (search.trace_id, search.parent_span_id) == (request.trace_id, request.span_id)
    assert spans["channel bm25"].trace_id == search.trace_id
    assert "sync" in spans
    logged = [json.loads(line) for line in (home / "stderr").read_text().splitlines()]
    failed = spans["tools/call describe_tool"].trace_id.hex()
    assert failed in {line.get("trace_id") for line in logged}


def test_an_unreachable_collector_fails_no_command(run, tree):
    gone = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"}
    found = run("search", "merge pdf files", "--root", tree, **gone)

    assert "merge_pdfs" in found.stdout
    assert found.returncode == 0


def test_neither_the_sdk_nor_prometheus_client_is_imported_if_nothing_reads_them():
    look = """
import sys, pytools_hybrid.search
print(*(it for it in sys.modules if it.startswith(("opentelemetry.sdk", "prometheus_client"))))
"""
    told = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=PATIENCE
    )

    assert told.stdout.strip() == ""
