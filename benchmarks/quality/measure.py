"""Run one method on one collection, and measure its results and times."""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass

from peers import create
from sets import Collection

__all__ = ["DEPTH", "Failure", "Run", "measure"]

DEPTH = 10
"""How many tools are asked for."""
_FIRST = "find a tool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The results of a method.

    Attributes:
        found: Ids, best first, for each query of the collection.
        ready: CPU seconds from the tools to the first answer, without imports.
        latencies: CPU milliseconds of each query, after the first answer.
    """

    found: tuple[tuple[str, ...], ...]
    ready: float
    latencies: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that failed.

    Attributes:
        reason: The reason, for the table.
    """

    reason: str


def measure(method: str, collection: Collection) -> Run | Failure:
    """Run a method in a separate process, so that methods cannot affect each other."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as process:
        try:
            return process.submit(_run, method, collection).result()
        except BrokenProcessPool:
            return Failure("its process died")
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a peer is its result
            text = " ".join(str(error).split())
            return Failure(f"{type(error).__name__}: {text}")


def _run(name: str, collection: Collection) -> Run:
    method = create(name)
    try:
        texts = [query.text for query in collection.queries]
        started = time.process_time()
        method.index(collection.tools, collection.tree)
        # Some methods create their index at the first search.
        method.search(_FIRST, DEPTH)
        ready = time.process_time() - started
        found, latencies = [], []
        for text in texts:
            started = time.process_time()
            ids = method.search(text, DEPTH)
            latencies.append(1000 * (time.process_time() - started))
            found.append(tuple(ids[:DEPTH]))
    finally:
        method.close()
    return Run(found=tuple(found), ready=ready, latencies=tuple(latencies))
