"""A failing provider affects only its own answers, and is used again once it recovers."""

import asyncio
import math
import re
import signal
import subprocess
import sys
import threading
import time

import apsw
import pytest
from pytools_hybrid import ToolSearch
from pytools_hybrid.index import Follower
from pytools_hybrid.index import follow as upkeep
from pytools_hybrid.reports.doctor import checks
from pytools_hybrid.serve.operations import answer_meta
from toolembed import Backoff, EmbeddingError, _provider

from .conftest import PATIENCE
from .openai_stub import Reply

pytest.importorskip("tiktoken", reason="the extra openai, which calls the provider, is missing")

MODEL = "openai:stub"


def every_row(row):
    return lambda rows: Reply(rows=[row] * len(rows))


def first_row(row):
    return lambda rows: Reply(rows=[row, *rows[1:]])


FAULTS = {
    "NaN in one row": first_row([math.nan] * 37),
    "NaN in all rows": every_row([math.nan] * 37),
    "infinite": every_row([math.inf] * 37),
    "zeros": every_row([0.0] * 37),
    "null in one row": first_row(None),
    "null in all rows": every_row(None),
    "strings": first_row(["1.0"] * 37),
    "no base64": first_row("oops"),
    "too few rows": lambda rows: Reply(rows=rows[:-1]),
    "no rows": lambda rows: Reply(),
    "too many rows": lambda rows: Reply(rows=[*rows, rows[0]]),
    "too many requests": lambda rows: Reply(status=429, headers={"retry-after-ms": "20"}),
    "a server error": lambda rows: Reply(status=500),
    "a refusal": lambda rows: Reply(status=400),
    "a wrong key": lambda rows: Reply(status=401),
}


@pytest.fixture
def _impatient(monkeypatch):
    """Retry failures soon; other tests check the delays."""
    monkeypatch.setattr(Backoff, "delay", lambda self, failures, asked=None: asked or 0.01)
    monkeypatch.setattr(upkeep, "_REFUSED_SECONDS", 0.01)
    start, real = time.time(), time.time
    monkeypatch.setattr("time.time", lambda: start + 1_000 * (real() - start))


@pytest.fixture(params=FAULTS)
def fault(request, openai):
    """Make the endpoint fail for a number of requests."""

    def fails(times):
        left = [times]

        def respond(texts):
            healthy = openai.healthy(texts)
            left[0] -= 1
            return healthy if left[0] < 0 else FAULTS[request.param](list(healthy.rows))

        openai.respond = respond

    return fails


def run(root, settings, job, **values):
    async def main():
        async with ToolSearch(
            root, settings(embedding_model=MODEL, **values), refresh=False
        ) as tools:
            return await job(tools)

    return asyncio.run(main())


async def serving(tools, job):
    """Run an async function while the index follows the files, as it does in a server."""
    following = asyncio.create_task(Follower(tools.index).run())
    try:
        async with asyncio.timeout(PATIENCE):
            return await job(tools)
    finally:
        following.cancel()
        await asyncio.wait([following])


async def all_embedded(tools):
    while (state := await tools.index.coverage()).vectors < max(4, state.tools):
        await asyncio.sleep(0.005)


def kept(tools):
    """Return the kept vectors, in order."""
    with tools.index.store.reading() as reader:
        rows = reader.connection.execute("SELECT vector FROM embeddings ORDER BY vector").fetchall()
        refusals = reader.connection.execute("SELECT count(*) FROM refusals").get
    return rows, refusals


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("times", [1, 6])
def test_a_recovered_provider_embeds_every_tool(fault, times, openai, settings, root, tmp_path):
    healthy, _ = run(root, settings, embedded, db_path=tmp_path / "healthy.db")
    fault(times)

    async def job(tools):
        await serving(tools, all_embedded)
        return kept(tools)

    rows, refusals = run(root, settings, job)

    assert rows == healthy
    assert refusals == 0


async def embedded(tools):
    (await tools.index.update()).raise_for_error()
    return kept(tools)


@pytest.mark.usefixtures("_impatient")
def test_the_offline_model_answers_until_the_provider_recovers(fault, openai, settings, root):
    async def job(tools):
        await embedded(tools)
        fault(3)
        answers = []
        async with asyncio.timeout(PATIENCE):
            while not answers or answers[-1].notes:
                answers.append(await tools.search(f"merge pdf {len(answers)}"))
                await asyncio.sleep(0.02)
        return answers

    *during, after = run(root, settings, job)

    assert after[0].id == "mcptools:pdf:merge_pdfs"
    assert after.channels == ("bm25", "vector")
    for answer in during:
        assert answer[0].id == "mcptools:pdf:merge_pdfs"
        assert (
            f"searched with vectors of static:tools2 (embedding model '{MODEL}'" in answer.notes[0]
        )


@pytest.mark.parametrize(
    "refusal",
    [
        lambda rows: Reply(status=400),
        lambda rows: Reply(rows=[None if row is None else row for row in rows]),
    ],
    ids=["an error", "null"],
)
def test_a_single_refused_text_is_skipped_and_retried_minutes_later(
    refusal, openai, settings, root, monkeypatch
):
    def respond(texts):
        rows = [None if "PDF" in text else openai.vector(text) for text in texts]
        return refusal(rows) if None in rows else Reply(rows=rows)

    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)

    async def job(tools):
        openai.respond = respond
        _, refusals = await embedded(tools)
        assert refusals == 1
        assert list(await tools.index.refused()) == ["mcptools:pdf:merge_pdfs"]
        note = (await tools.search("show the history")).notes[0]
        assert "3 of 4 tools have vectors so far (1 refused by the model" in note
        assert "pytools-hybrid index" in note
        asked = len(openai.requests)
        await tools.index.update(files=False)
        assert len(openai.requests) == asked, "nothing is pending"

        openai.respond = openai.healthy
        monkeypatch.setattr("time.time", lambda: now + 61)
        await tools.index.update(files=False)
        return await tools.index.coverage(), await tools.index.refused()

    coverage, refused = run(root, settings, job)

    assert coverage.vectors == 4
    assert refused == {}


def test_a_server_soon_retries_refused_texts(openai, settings, root, monkeypatch):
    monkeypatch.setattr(upkeep, "_REFUSED_SECONDS", 0.01)
    refuses = threading.Event()
    refuses.set()

    def respond(texts):
        if refuses.is_set() and any("PDF" in text for text in texts):
            return Reply(status=400)
        return openai.healthy(texts)

    openai.respond = respond

    async def job(tools):
        while not await tools.index.refused():
            await asyncio.sleep(0.005)
        refuses.clear()
        now = time.time
        monkeypatch.setattr("time.time", lambda: now() + 61)
        await all_embedded(tools)

    run(root, settings, lambda tools: serving(tools, job))


# Retry-After


def test_retry_after_on_a_query_also_delays_documents(openai, settings, root):
    openai.respond = lambda texts: Reply(status=429, headers={"Retry-After": "3000"})

    async def job(tools):
        await tools.index.update(vectors=False)
        notes = [(await tools.search(f"merge pdf {number}")).notes[0] for number in range(3)]
        with pytest.raises(EmbeddingError, match="not to be called for another") as caught:
            await tools.index.vectors.embed()
        return notes, caught.value.retry_after

    notes, wait = run(root, settings, job)

    assert len(openai.requests) == 1
    assert "429" in notes[0]
    waits = [int(re.search("retried in ([0-9]+) s", note)[1]) for note in notes[1:]]
    assert all(2000 < it <= 3000 for it in (*waits, wait))


def test_retry_after_on_documents_also_delays_queries(openai, settings, root):
    openai.respond = lambda texts: Reply(status=429, headers={"Retry-After": "3000"})

    async def job(tools):
        await tools.index.update(vectors=False)
        with pytest.raises(EmbeddingError, match="429"):
            await tools.index.vectors.embed()
        asked = len(openai.requests)
        note = (await tools.search("merge pdf")).notes[0]
        return len(openai.requests) - asked, note

    further, note = run(root, settings, job)

    assert further == 0
    assert "asked not to be called" in note


def test_a_provider_that_hung_is_used_as_soon_as_it_answers_again(
    openai, settings, root, monkeypatch
):
    monkeypatch.setattr(_provider, "_REQUEST_SECONDS", 0.2)
    hangs, ended = threading.Event(), threading.Event()
    hangs.set()

    def respond(texts):
        if hangs.is_set():
            ended.wait()
        return openai.healthy(texts)

    openai.respond = respond

    async def job(tools):
        # Before that, an answer would first say that the tools are being indexed.
        await tools.index.update(vectors=False)
        note = (await tools.search("merge pdf")).notes[0]
        assert "no answer within 0.2 s" in note
        while len(openai.requests) < 3:
            await asyncio.sleep(0.005)
        hangs.clear()
        # A busy machine may take longer for an answer.
        tools.index.embedder._request_seconds = PATIENCE
        await all_embedded(tools)
        while (await tools.search("merge pdf")).notes:
            await asyncio.sleep(0.02)

    try:
        run(root, settings, lambda tools: serving(tools, job))
    finally:
        ended.set()


def test_a_recovered_provider_is_noticed_within_20_seconds():
    from pytools_hybrid.search import vectors as queries

    for backoff in (upkeep._EMBEDDING, queries._BACKOFF):
        assert backoff.longest + _provider._REQUEST_SECONDS < 20
    assert upkeep._EMBEDDING_UNAVAILABLE.longest + _provider._REQUEST_SECONDS < 60
    assert upkeep._REFUSED_SECONDS < 15


# What a kill loses


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_a_kill_loses_at_most_two_batches(openai, tmp_path, write_tool):
    for number in range(400):
        write_tool(f"mcptools/mail/send_{number}.py", f"Send letter {number}.")
    database, ended = tmp_path / "index.db", threading.Event()

    def batches():
        # Before that, one vector is requested to learn its dimension.
        return [texts for texts in openai.requests if len(texts) > 1]

    def respond(texts):
        if batches().index(texts) > 2:
            ended.wait()
        return openai.healthy(texts)

    openai.respond = respond
    # It must not repeat the requests that are not answered.
    patient = (
        "import sys\n"
        "from pytools_hybrid.cli import main\n"
        "from toolembed import _provider\n"
        "_provider._REQUEST_SECONDS = 3600\n"
        "main(sys.argv[1:])\n"
    )
    command = [sys.executable, "-c", patient, "index", "--model", MODEL]
    process = subprocess.Popen(
        [*command, "--root", tmp_path / "tools", "--database", database],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + PATIENCE
        # Every answered batch is stored while the rest is in progress.
        while len(batches()) < 5 or vectors_in(database) < 3 * 64:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
        process.wait(PATIENCE)
    finally:
        process.kill()
        ended.set()

    assert vectors_in(database) == 3 * 64
    assert sum(map(len, batches())) == 5 * 64


def vectors_in(path):
    connection = apsw.Connection(f"{path}-kept", flags=apsw.SQLITE_OPEN_READONLY)
    connection.set_busy_timeout(1000 * PATIENCE)
    try:
        return connection.execute("SELECT count(*) FROM embeddings").get
    finally:
        connection.close()


# Which model answers


def test_an_answer_first_says_what_is_wrong_and_which_model_was_used(openai, settings, root):
    async def index(tools):
        await embedded(tools)
        return await tools.search("merge pdf")

    async def offline():
        async with ToolSearch(root, settings(), refresh=False) as tools:
            return await index(tools)

    by_default = asyncio.run(offline())
    openai.respond = lambda texts: Reply(status=401)

    async def job(tools):
        return await tools.search("merge pdf"), await tools.probe()

    stand_in, probe = run(root, settings, job)

    assert by_default.model.startswith("static:")
    assert by_default.notes == ()
    assert stand_in.model == probe.model == by_default.model
    assert (
        f"searched with vectors of {by_default.model} (embedding model '{MODEL}'"
        in (stand_in.notes[0])
    )
    assert answer_meta(stand_in)["model"] == by_default.model


def test_doctor_says_what_searches_use_while_the_model_fails(openai, settings, root):
    asyncio.run(_embed_offline(settings(), root))
    openai.respond = lambda texts: Reply(status=401)

    checked = checks(settings(root=[root], embedding_model=MODEL))

    (check,) = [it for it in checked if it.name == "embedder"]
    assert "searches use static" in check.run().message


async def _embed_offline(settings, root):
    async with ToolSearch(root, settings, refresh=False) as tools:
        await embedded(tools)


def test_with_an_unknown_provider_every_answer_says_that_vectors_are_missing(settings, root):
    async def job(tools):
        with pytest.raises(EmbeddingError, match="knows no provider"):
            await embedded(tools)
        return await tools.search("merge pdf")

    async def main():
        async with ToolSearch(
            root, settings(embedding_model="nobody:stub"), refresh=False
        ) as tools:
            return await job(tools)

    answer = asyncio.run(main())

    assert answer[0].id == "mcptools:pdf:merge_pdfs"
    assert "pydantic-ai knows no provider of 'nobody:stub'" in answer.notes[0]
