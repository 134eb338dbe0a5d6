"""`pytools-hybrid doctor` and `models`, run as a user runs them."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

import pytest

from .conftest import PATIENCE, PATIENT

MODEL = "sentence-transformers:tiny"
REPOSITORY = "sentence-transformers/tiny"
FILES = {
    "modules.json": b"[]",
    "config.json": b"{}",
    "model.safetensors": b"weights" * 40_000,
    "pytorch_model.bin": b"old weights",
    "onnx/model.onnx": b"for others",
    "README.md": b"# tiny",
}
COMMIT = "1" * 40


class Hub(BaseHTTPRequestHandler):
    """A hub with one model, and the endpoints that a download uses."""

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, *, with_body):
        path = unquote(urlsplit(self.path).path)
        repository = f"/{REPOSITORY}/resolve/main/"
        if path == f"/api/models/{REPOSITORY}":
            siblings = [{"rfilename": name, "size": len(it)} for name, it in FILES.items()]
            details = {"id": REPOSITORY, "sha": COMMIT, "siblings": siblings}
            self.send(json.dumps(details).encode(), "application/json")
        elif path.startswith(repository):
            name = path.removeprefix(repository)
            if with_body:
                self.server.fetched.add(name)
            is_cut = name in self.server.breaks_off
            self.send(FILES[name], "application/octet-stream", is_cut=is_cut, with_body=with_body)
        else:
            self.send_response(404)
            self.send_header("X-Error-Code", "RepoNotFound")
            self.end_headers()

    def send(self, body, kind, *, is_cut=False, with_body=True):
        etag = hashlib.sha256(body).hexdigest()
        start = int(self.headers.get("Range", "bytes=0-")[6:].partition("-")[0])
        body = body[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{etag}"')
        self.end_headers()
        if with_body:
            self.wfile.write(body[: len(body) // 2] if is_cut else body)

    def log_message(self, *_):
        pass


@pytest.fixture
def hub():
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as server:
        # The files that were downloaded, and those whose download breaks off.
        server.fetched, server.breaks_off = set(), set()
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join(PATIENCE)


@pytest.fixture
def at_hub(run, hub, tmp_path):
    """Run the command with the hub as the only address that answers."""

    def run_there(*arguments):
        return run(
            *arguments,
            HF_ENDPOINT=f"http://127.0.0.1:{hub.server_port}",
            HF_HOME=str(tmp_path / "hub"),
            HF_HUB_DISABLE_TELEMETRY="1",
            NO_PROXY="127.0.0.1",
            OLLAMA_BASE_URL="http://127.0.0.1:9",
        )

    return run_there


def test_each_check_is_a_line_and_all_pass_after_indexing(run, tree):
    run("index", "--root", tree)
    done = run("doctor", "--root", tree)

    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert [line.split()[0] for line in lines[:10]] == ["ok"] * 10
    assert lines[-1] == "All is well."
    assert done.stderr == ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has private mounts")
def test_a_root_on_a_read_only_medium_works(run, tree):
    """A mount, because permissions do not restrict the user root."""
    mounted = f"mount --bind {tree} {tree} && mount -o remount,ro,bind {tree} && ! touch {tree}/x"
    alone = ["unshare", "--mount", "--map-root-user", "sh", "-c"]
    if shutil.which("unshare") is None or run(mounted, program=alone).returncode:
        pytest.skip("this user cannot mount a folder read-only")
    program = [*alone, f'{mounted} && exec "$@"', "sh", *PATIENT]

    found = run("search", "open an issue on github", "--root", tree, program=program)
    told = run("doctor", "--root", tree, "--output", "json", program=program)

    assert "mcptools:github:create_issue" in found.stdout
    assert "indexed 119 tools" in found.stderr
    statuses = {it["check"]: it["status"] for it in json.loads(told.stdout)}
    assert {statuses[name] for name in ("root", "database", "watcher", "MCP server")} == {"ok"}


def test_a_failed_check_is_in_the_json_output_and_the_exit_status(run, tmp_path):
    file = tmp_path / "index.db"
    file.write_text("no index, " * 40)

    done = run("doctor", "--root", tmp_path / "nowhere", "--db", file, "--output", "json")

    found = {it["check"]: it for it in json.loads(done.stdout)}
    assert done.returncode == 1
    assert found["root"]["status"] == found["database"]["status"] == "failed"
    assert found["database"]["remedy"] == "give another path with --database"
    assert found["embedder"]["status"] == "ok"
    assert file.read_text() == "no index, " * 40


def test_warnings_are_not_failures(run, tree):
    done = run("doctor", "--root", tree, "--model", "none", PYTOOLS_WATHC="true")

    assert done.returncode == 0
    assert "PYTOOLS_WATHC is not a setting (is PYTOOLS_WATCH meant?)" in done.stdout
    assert f"→ pytools-hybrid index --root {tree} --model none" in done.stdout
    assert done.stdout.splitlines()[-1].endswith("2 warnings, 8 passed.")


def test_settings_that_cannot_work_are_a_finding(run, tree):
    done = run("doctor", "--root", tree, PYTOOLS_LIMIT="many")

    assert done.returncode == 1
    assert "failed   settings     PYTOOLS_LIMIT" in done.stdout.replace("--limit / ", "")


def test_a_settings_file_that_cannot_be_read_is_a_finding(run, tree, home):
    (home / "pytools.toml").write_text("limit = = 3\n")

    done = run("doctor", "--root", tree)

    assert done.returncode == 1
    assert "pytools.toml" in done.stdout


def test_calling_providers_requires_models(run):
    done = run("doctor", "--call-providers")

    assert done.returncode == 2
    assert "--call-providers: requires --models" in done.stderr


def test_models_are_listed_with_what_each_lacks(at_hub):
    done = at_hub("doctor", "--models", "--output", "json")

    choices = {it["setting"]: it for it in json.loads(done.stdout)}
    assert choices["static"]["works"]
    assert choices["voyageai:voyage-4-lite"]["remedy"].endswith('[voyageai]"')


def test_models_are_listed_with_a_broken_settings_file(at_hub, home):
    (home / "pytools.toml").write_text("limit = = 3\n")
    done = at_hub("doctor", "--models", "--output", "json")

    assert done.returncode == 0
    assert "static" in [it["setting"] for it in json.loads(done.stdout)]


def test_one_command_downloads_only_the_needed_files_of_a_model(at_hub, hub, tmp_path):
    done = at_hub("index", "--download", "--model", MODEL)

    assert done.returncode == 0, done.stderr
    assert f"use it with --model {MODEL}" in done.stderr
    assert hub.fetched == {"modules.json", "config.json", "model.safetensors"}
    (weights,) = (tmp_path / "hub").rglob("snapshots/*/model.safetensors")
    assert weights.read_bytes() == FILES["model.safetensors"]

    # A second download fetches nothing.
    hub.fetched.clear()
    assert at_hub("index", "--download", "--model", MODEL).returncode == 0
    assert hub.fetched == set()


def test_a_search_never_downloads(at_hub, hub, tree):
    done = at_hub("search", "merge two pdf files", "--root", tree, "--model", MODEL)

    assert done.returncode == 0
    assert "mcptools:pdf:merge_pdfs" in done.stdout
    # The message depends on whether the extra is installed.
    assert "[sentence-transformers]" in done.stderr or f"download {MODEL}" in done.stderr
    assert hub.fetched == set()


def test_an_interrupted_download_leaves_no_model(at_hub, hub):
    hub.breaks_off.add("model.safetensors")

    done = at_hub("index", "--download", "--model", MODEL)

    assert done.returncode == 1
    assert "sentence-transformers/tiny cannot be downloaded" in done.stderr
    assert "modules.json" not in hub.fetched
    hub.breaks_off.clear()
    assert at_hub("index", "--download", "--model", MODEL).returncode == 0


@pytest.mark.parametrize(
    ("model", "status", "words"),
    [
        ("sentence-transformers:absent", 1, "the hub has no model 'sentence-transformers/absent'"),
        ("sentence-transformers:./folder", 1, "is not a model of the hub"),
        ("ollama:nomic-embed-text", 2, "run: ollama pull nomic-embed-text"),
        ("static", 2, "cannot be downloaded"),
        ("openai:text-embedding-3-small", 2, "cannot be downloaded"),
    ],
)
def test_a_failed_download_is_reported_with_the_reason(at_hub, model, status, words):
    done = at_hub("index", "--download", "--model", model)

    assert done.returncode == status
    assert words in done.stderr


def test_a_hub_that_cannot_be_reached_is_reported(run, tmp_path):
    done = run(
        "index", "--download", "--model", MODEL,
        HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path / "hub"), NO_PROXY="127.0.0.1",
    )  # fmt: skip

    assert done.returncode == 1
    assert done.stderr.startswith("error: sentence-transformers/tiny cannot be downloaded")


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_an_interrupted_doctor_leaves_no_processes_or_files(environment, home, tree, patient):
    before = sorted(str(path) for path in tree.rglob("*"))
    # Not as a fork of a process that other tests use too: the session has to be its own.
    process = subprocess.Popen(
        [*PATIENT, "doctor", "--root", str(tree)], cwd=home, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    with patient(process, "the check of the watcher"):
        assert any("watcher" in line for line in process.stdout)
    # The next check has started a server.
    os.kill(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENCE)

    deadline = time.monotonic() + PATIENCE
    while _is_there(process.pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _is_there(process.pid)
    assert sorted(str(path) for path in tree.rglob("*")) == before


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
