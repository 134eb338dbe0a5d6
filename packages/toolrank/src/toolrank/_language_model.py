"""One question to a language model through pydantic-ai, with a time limit and a cache."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Generic, TypeVar
from weakref import WeakValueDictionary

from toolrank.errors import RankingArgumentError, ToolRankError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping
    from typing import TypeAlias

    from pydantic_ai.models import Model
    from pydantic_ai.usage import RunUsage

    ModelOrName: TypeAlias = Model | str

OutputT = TypeVar("OutputT")
AnswerT = TypeVar("AnswerT")

_REASON_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """What a language model call cost; zero if it was not called or the answer was cached.

    Attributes:
        requests: Requests to the model, answered or not.
        input_tokens: Tokens sent, as reported by the provider.
        output_tokens: Tokens that the model wrote.
        cost_usd: Their price in US dollars, or None if it is not known.
    """

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0

    def __add__(self, other: ModelUsage) -> ModelUsage:
        """Return the sum; its price is unknown if one of the prices is."""
        known = self.cost_usd is not None and other.cost_usd is not None
        return ModelUsage(
            requests=self.requests + other.requests,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_usd=(self.cost_usd or 0.0) + (other.cost_usd or 0.0) if known else None,
        )


NO_USAGE = ModelUsage()


@dataclass(frozen=True, slots=True)
class Answer(Generic[AnswerT]):
    """An answer, and what it cost."""

    value: AnswerT
    usage: ModelUsage = NO_USAGE


class NoAnswerError(ToolRankError):
    """Raised for a question without a usable answer; an outcome carries the reason."""

    def __init__(self, reason: str, *, usage: ModelUsage = NO_USAGE) -> None:
        self.reason = one_line(reason, limit=_REASON_LENGTH)
        self.usage = usage
        super().__init__(self.reason)


class LanguageModel(Generic[OutputT, AnswerT]):
    """Asks a model questions of one kind, and caches the answers.

    Mistakes in the settings raise at construction; an outage or a bad answer later raises the
    one error of `ask`.

    Args:
        model: A pydantic-ai model, or the name of one.
        instructions: What to do with each prompt.
        output_type: The type of the model's output, enforced by pydantic-ai in whichever way
            the model supports.
        timeout_s: How long to wait for an answer, in seconds.
        cache_size: How many answers to cache; the least recently used are dropped first.

    Raises:
        RankingArgumentError: pydantic-ai is not installed; the model's name is unknown, its
            provider's package or key is missing; a number that is out of range.
    """

    def __init__(
        self,
        model: ModelOrName,
        *,
        instructions: str,
        output_type: type[OutputT],
        timeout_s: float,
        cache_size: int,
    ) -> None:
        if not (math.isfinite(timeout_s) and timeout_s > 0):
            raise RankingArgumentError("timeout_s", f"{timeout_s} is not a finite number above 0")
        if cache_size < 0:
            raise RankingArgumentError("cache_size", f"{cache_size} is below 0; 0 means no cache")
        try:
            # Imported where it is used, because the package works without it.
            from pydantic_ai import Agent
            from pydantic_ai.models import infer_model
            from pydantic_ai.usage import RunUsage
        except ImportError as error:
            raise RankingArgumentError(
                "model",
                'language models need pydantic-ai: install "toolrank-hybrid[rerank]"',
            ) from error
        try:
            resolved = infer_model(model)
        except Exception as error:
            # Unknown names, missing packages and missing keys have no common root.
            raise RankingArgumentError(
                "model",
                f"cannot use {model!r}: {error}. Name it as provider:model, and give that "
                "provider its package and its key.",
            ) from error
        # A second attempt would use up the time limit of the whole ranking.
        self._agent = Agent(
            resolved,
            name="toolrank",
            instructions=instructions,
            output_type=output_type,
            retries=0,
        )
        self._new_usage = RunUsage
        self._timeout_s = timeout_s
        self._answers: _Answers[AnswerT] = _Answers(cache_size)
        self._turns: WeakValueDictionary[tuple[int, str], asyncio.Lock] = WeakValueDictionary()

    async def ask(self, prompt: str, *, read: Callable[[OutputT], AnswerT]) -> Answer[AnswerT]:
        """Return the answer to a prompt, from the cache or from the model.

        Callers with the same prompt wait for one call and share its answer; only the first reports
        its usage. Answers that `read` refuses are not cached: the next one may be better.

        Args:
            prompt: The question.
            read: Makes an answer of the model's output, or raises `NoAnswerError`.

        Raises:
            NoAnswerError: Out of time, the model failed, or `read` refused what it said.
        """
        # Importing it takes longer than this whole package, most of which is not async.
        import asyncio

        if (known := self._answers.get(prompt)) is not None:
            return Answer(known)
        # A lock belongs to one event loop.
        key = (id(asyncio.get_running_loop()), prompt)
        turn = self._turns.setdefault(key, asyncio.Lock())
        deadline = asyncio.timeout(self._timeout_s)
        used, sent = self._new_usage(), 0
        try:
            async with deadline, turn:
                if (known := self._answers.get(prompt)) is not None:
                    return Answer(known)
                sent = 1
                output = (await self._agent.run(prompt, usage=used)).output
            usage = _usage(used, sent=sent)
            answer = read(output)
        except NoAnswerError as error:
            raise NoAnswerError(error.reason, usage=_usage(used, sent=sent)) from error
        except Exception as error:
            # Providers' errors have no common base class; a cancellation is not among them.
            if deadline.expired():
                reason = f"no answer within {self._timeout_s:g} s"
            else:
                reason = f"the model failed: {type(error).__name__}: {error}"
            raise NoAnswerError(reason, usage=_usage(used, sent=sent)) from error
        self._answers.put(prompt, answer)
        return Answer(answer, usage)


def _usage(used: RunUsage, *, sent: int) -> ModelUsage:
    """Return the cost of a run, whether or not it succeeded."""
    # Older versions of pydantic-ai do not calculate prices.
    cost = getattr(used, "cost", None)
    return ModelUsage(
        requests=sent,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cost_usd=float(cost) if cost is not None else None if sent else 0.0,
    )


class _Answers(Generic[AnswerT]):
    """Answers by prompt, at most `size`; threads may share it, as they may share a ranker."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[str, AnswerT] = OrderedDict()
        self._lock = Lock()

    def get(self, prompt: str) -> AnswerT | None:
        with self._lock:
            if prompt in self._kept:
                self._kept.move_to_end(prompt)
            return self._kept.get(prompt)

    def put(self, prompt: str, answer: AnswerT) -> None:
        with self._lock:
            self._kept[prompt] = answer
            self._kept.move_to_end(prompt)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)


def as_data(content: Mapping[str, object]) -> str:
    """Return untrusted data as JSON, so that it stays inside its strings.

    Angle brackets are escaped too: some servers read `<|im_end|>` in a text as the end of a turn.
    """
    encoded = json.dumps(content, ensure_ascii=False)
    return encoded.replace("<", "\\u003c").replace(">", "\\u003e")


def one_line(text: str, *, limit: int) -> str:
    """Return the first `limit` visible characters, whitespace folded.

    Invisible characters, such as Unicode's tag characters, can contain instructions, and half of a
    surrogate pair cannot be sent at all.
    """
    # Truncate it beforehand too, so that a megabyte costs no more than a page.
    seen = "".join(char if char.isprintable() else " " for char in text[: 4 * limit])
    return " ".join(seen.split())[:limit].rstrip()
