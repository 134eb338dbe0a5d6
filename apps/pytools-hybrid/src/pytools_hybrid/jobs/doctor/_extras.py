"""Checking optional packages, which only some commands and settings need."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING

from toolembed import without_keys

from pytools_hybrid.installation import install_command
from pytools_hybrid.jobs.doctor._embedder import remedy_of
from pytools_hybrid.jobs.doctor._finding import failed, fine

if TYPE_CHECKING:
    from pytools_hybrid.jobs.doctor._finding import Verdict

_GENERATOR = "datamodel_code_generator"


def look_at_reranking(model: str) -> Verdict:
    """Check that the language model can be loaded; it is not called, as that may cost money."""
    from pytools_hybrid.search import Reranking

    if problem := asyncio.run(Reranking(model).prepare()):
        remedy = remedy_of(problem, model=model)
        return failed(f"{model} cannot be used ({without_keys(problem)})", remedy)
    return fine(f"{model} can be loaded; it was not called")


def look_at_importing(generator: str = _GENERATOR) -> Verdict:
    """Check that MCP servers can be imported."""
    if find_spec(generator) is None:
        return fine(
            "not installed; only `pytools-hybrid import` needs it: "
            + install_command("pytools-hybrid[import]")
        )
    return fine("MCP servers can be imported")
