"""Asking a language model about tools: a few requests at a time, with retries and costs."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from toolembed import Backoff
from toolembed.providers import redact_keys
from toolrank.rerank import ModelUsage

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.jobs.enrich._prompt import (
    INSTRUCTIONS,
    Said,
    Subject,
    capabilities_of,
    prompt_of,
)
from pytools_hybrid.settings import REMEDIES
from pytools_hybrid.text import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pydantic_ai.models import Model
    from pydantic_ai.usage import RunUsage

    from pytools_hybrid.index import Capability

_BACKOFF = Backoff(first=2.0, longest=20.0)
_TIMEOUT_S = 180.0
_REASON_LENGTH = 300
# Rate limits, time-outs and failures of the provider are temporary; other errors are not.
_PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A model's answers about some tools."""

    made: Mapping[str, Capability]
    spent: ModelUsage


class NoAnswerError(Exception):
    """A request without a usable answer."""

    def __init__(self, reason: str, spent: ModelUsage) -> None:
        super().__init__(reason)
        self.reason = reason
        self.spent = spent


class Asker:
    """Asks a language model about tools.

    Args:
        model: A pydantic-ai model, or its name.

    Raises:
        SettingsError: The model cannot be used: its name, its package or its key.
    """

    def __init__(self, model: Model | str, *, backoff: Backoff = _BACKOFF) -> None:
        # pydantic-ai would print a banner on the terminal.
        os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")
        try:
            from pydantic_ai import Agent
            from pydantic_ai.models import infer_model

            resolved = infer_model(model)
        except ImportError as error:
            raise SettingsError("--model", REMEDIES.what_to_do(str(model), error)) from error
        except Exception as error:
            # Errors for unknown names and missing keys have no common base class.
            reason = one_line(redact_keys(str(error)), _REASON_LENGTH)
            raise SettingsError("--model", f"cannot use {model!r}: {reason}") from error
        # Retry once if the answer has the wrong form.
        self._agent = Agent(
            resolved, name="enrich", instructions=INSTRUCTIONS, output_type=Said, retries=1
        )
        self._backoff = backoff

    async def ask(self, subjects: Sequence[Subject]) -> Answer:
        """Ask about some tools; raise `NoAnswerError` if the model fails even after retries."""
        from pydantic_ai.exceptions import ModelHTTPError
        from pydantic_ai.usage import RunUsage

        used = RunUsage()
        prompt = prompt_of(subjects)
        for failures in count(1):
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    run = await self._agent.run(prompt, usage=used)
            except Exception as error:
                # Providers' errors have no common base class; a cancellation is not among them.
                passes = not isinstance(error, ModelHTTPError) or error.status_code in _PASSING
                if failures >= self._backoff.tries or not passes:
                    # Hide keys before cutting the text, because half a key is not recognized.
                    said = redact_keys(f"{type(error).__name__}: {error}")
                    raise NoAnswerError(one_line(said, _REASON_LENGTH), _spent(used)) from error
                await asyncio.sleep(self._backoff.delay(failures))
            else:
                return Answer(made=capabilities_of(run.output, subjects), spent=_spent(used))
        raise AssertionError("the last try returns or raises")


def _spent(used: RunUsage) -> ModelUsage:
    cost = used.cost
    return ModelUsage(
        requests=used.requests,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost_usd=None if cost is None else float(cost),
    )
