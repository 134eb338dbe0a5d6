"""Measure the accuracy of each model on one tree, and the CPU time of a search.

usage: PYTHONPATH=benchmarks/quality uv run python benchmarks/quality/cost.py TREE QUERIES...

Only lines of QUERIES with the split `test` are used, or all if there are none. Each model runs in a
separate process, after one search to warm up. CPU is that of the whole search, including the
query's vector. For a provider, it is only our side, because `provider.py` is another process.
"""

# pyright: reportCallIssue=false

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from provider import Published, Stub
from pytools_hybrid import Settings, ToolSearch
from toolembed import Embedder, create_embedder
from toolrank.metrics import evaluate

MEASURES = ("hit@3", "recall@5", "ndcg@10")
MODELS = {
    "words alone": "none",
    "`static`": "static",
    "`accurate`": "accurate",
    "MiniLM as published, numpy": "published",
    "the same, from a provider": "openai:minilm",
}


async def row(name: str, tree: Path, files: list[Path]) -> str:
    model = MODELS[name]
    embedder: Embedder | None = Published() if model == "published" else create_embedder(model)
    cells: list[str] = []
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        own = {} if model == "published" else {"embedding_model": model}
        settings = Settings(database=Path(folder, "index.db")).model_copy(update=own)
        async with ToolSearch(tree, settings, embedder=embedder, refresh=False) as search:
            await search.index.update()
            await search.search("find a tool", record=False)
            for file in files:
                lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
                asked = [line for line in lines if line.get("split") == "test"] or lines
                run: dict[str, list[str]] = {}
                for line in asked:
                    started = time.process_time()
                    answer = await search.search(line["query"], limit=10, record=False)
                    times.append(1000 * (time.process_time() - started))
                    run[line["id"]] = [str(tool.entry.id) for tool in answer.tools]
                found = evaluate(run, {line["id"]: line["gold"] for line in asked}, MEASURES)
                cells.append(" / ".join(f"{found.mean(each):.3f}" for each in MEASURES))
    cells += [f"{statistics.median(times):.1f} ms", f"{statistics.fmean(times):.1f} ms"]
    return f"| {name} | {' | '.join(cells)} |"


def _run(name: str, tree: Path, files: list[Path]) -> None:
    print(asyncio.run(row(name, tree, files)), flush=True)


def _serve(port: multiprocessing.SimpleQueue[int]) -> None:
    stub = Stub()
    port.put(stub.server_port)
    stub.serve_forever()


def main() -> None:
    tree, *files = map(Path, sys.argv[1:])
    spawn = multiprocessing.get_context("spawn")
    port = spawn.SimpleQueue()
    server = spawn.Process(target=_serve, args=(port,), daemon=True)
    server.start()
    os.environ |= {
        "OPENAI_BASE_URL": f"http://127.0.0.1:{port.get()}/v1",
        "OPENAI_API_KEY": "stub",
    }
    names = [file.stem for file in files]
    print(f"| model | {' | '.join(names)} | CPU p50 | mean |\n|---|{'---|' * len(names)}--:|--:|")
    for name in MODELS:
        process = spawn.Process(target=_run, args=(name, tree, files))
        process.start()
        process.join()
    server.terminate()


if __name__ == "__main__":
    main()
