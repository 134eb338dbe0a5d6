"""What is pending in a real index is embedded: once, whoever else is at it, whoever is killed."""

import asyncio
import hashlib
import subprocess
import sys
from collections import Counter

import pytest
from toolembed import (
    Backoff,
    EmbeddingError,
    EmbeddingLimits,
    EmbeddingReport,
    FailureKind,
    embed_pending,
)
from toolindex import ReadOnlyIndexError, ToolIndex
from toolscan import scan


@pytest.fixture
def path(tmp_path):
    return tmp_path / "search.db"


@pytest.fixture
def index(path):
    with ToolIndex(path) as opened:
        yield opened


@pytest.fixture
def fill(tmp_path, write_tool):
    """Make an index equal to descriptions by id."""

    def fill_index(index, descriptions):
        for id_, description in descriptions.items():
            write_tool(f"{id_.replace(':', '/')}.py", description)
        index.sync(scan(tmp_path / "tools"), reader_version="1")

    return fill_index


def vector_of(text):
    digest = hashlib.sha256(text.encode()).digest()
    return [1.0 + byte for byte in digest[:4]]


class Model:
    """Returns a vector for every text but those it is to refuse, and notes what it was asked."""

    model_id = "m"
    dimensions = None

    def __init__(self, refused=()):
        self.embedded = Counter()
        self._refused = set(refused)

    async def embed_documents(self, texts):
        if self._refused.intersection(texts):
            raise EmbeddingError("m", "not this", kind=FailureKind.REFUSED)
        self.embedded.update(texts)
        return [vector_of(text) for text in texts]

    async def embed_query(self, text):
        return vector_of(text)


def embed(index, model, **options):
    options = {"retry": Backoff(first=0.001, jitter=True), "lease_poll": 0.001} | options
    return asyncio.run(embed_pending(index, model, **options))


def test_a_real_index_is_embedded(index, fill):
    fill(index, {f"mcptools:mail:send_{number}": f"Send {number}." for number in range(130)})

    report = embed(index, Model(), limits=EmbeddingLimits(texts_per_request=50, concurrency=2))

    assert report.embedded == 130
    assert index.pending("m", limit=1) == {}


def test_an_index_that_cannot_be_written_ends_it_and_says_so(path, fill):
    with ToolIndex(path) as index:
        fill(index, {"mcptools:mail:send": "Send."})
    with (
        ToolIndex(path, read_only=True) as index,
        pytest.raises(ReadOnlyIndexError, match="read-only"),
    ):
        embed(index, Model())


def test_a_text_that_was_refused_is_not_asked_about_again_whoever_asks(path, fill):
    with ToolIndex(path) as index:
        fill(index, {f"mcptools:mail:send_{number}": f"Send {number}." for number in range(20)})
        unwanted = [text for text in index.pending("m", limit=20).values() if "Send 1" in text]
        assert len(embed(index, Model(unwanted)).refused) == 11

    with ToolIndex(path) as index:
        assert embed(index, Model()) == EmbeddingReport(embedded=0, refused=())
        assert index.refused("m") == {
            f"mcptools:mail:send_{number}": "embedding model 'm': not this"
            for number in (1, *range(10, 20))
        }


def test_vectors_of_other_dimensions_than_those_stored_earlier_are_kept_beside_them(index, fill):
    fill(index, {"mcptools:mail:send": "Send.", "mcptools:mail:read": "Read."})
    first, _ = index.pending("m", limit=2)
    index.put_vectors("m", {first: [1.0, 2.0]})

    embed(index, Model())

    assert set(index.pending("m", limit=2)) == {first}, "all texts get a vector of one length"
    embed(index, Model())
    assert index.pending("m", limit=2) == {}


EMBEDDING_PROGRAM = """
import asyncio, sys
from collections import Counter
from pathlib import Path
from toolindex import ToolIndex
from toolembed import embed_pending
from toolembed import EmbeddingLimits

path, go, log, die_after = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4])

class Model:
    model_id = "m"
    dimensions = 4
    requests = 0

    async def embed_documents(self, texts):
        with log.open("a") as file:
            file.writelines(f"{text.splitlines()[0]}\\n" for text in texts)
        self.requests += 1
        if self.requests == die_after:
            import os, signal
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0.001)
        return [[1.0, 2.0, 3.0, 4.0]] * len(texts)

print("ready", flush=True)
while not go.exists():
    pass
with ToolIndex(path) as index:
    report = asyncio.run(embed_pending(
        index, Model(), limits=EmbeddingLimits(texts_per_request=10), lease_poll=0.01
    ))
print(report.embedded)
"""


def embedding_processes(path, tmp_path, *, die_after):
    go = tmp_path / "go"
    logs = [tmp_path / f"log{number}" for number in range(len(die_after))]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", EMBEDDING_PROGRAM, *map(str, (path, go, log, requests))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for log, requests in zip(logs, die_after, strict=True)
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    go.touch()
    outputs = [process.communicate(timeout=60) for process in processes]
    texts = "".join(log.read_text() for log in logs if log.exists()).splitlines()
    return [process.returncode for process in processes], outputs, Counter(texts)


def test_of_processes_on_one_index_each_text_is_embedded_by_one(path, fill, tmp_path):
    with ToolIndex(path) as index:
        fill(index, {f"mcptools:mail:send_{number}": f"Send {number}." for number in range(200)})

    codes, outputs, embedded = embedding_processes(path, tmp_path, die_after=[0, 0, 0])

    assert codes == [0, 0, 0], outputs
    assert sum(int(out) for out, _ in outputs) == 200
    assert (len(embedded), set(embedded.values())) == (200, {1})


def test_a_killed_process_costs_one_batch_and_others_do_the_rest(path, fill, tmp_path):
    with ToolIndex(path) as index:
        fill(index, {f"mcptools:mail:send_{number}": f"Send {number}." for number in range(200)})

    codes, outputs, embedded = embedding_processes(path, tmp_path, die_after=[3, 6])
    assert codes == [-9, -9], outputs
    model = Model()
    with ToolIndex(path) as index:
        embed(index, model)
        assert index.pending("m", limit=1) == {}

    assert embedded.total() + model.embedded.total() == 200 + 10 + 10
