"""Planning which tools to ask a model about, in how many requests, and at what cost."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytools_hybrid.index import scan_roots
from pytools_hybrid.jobs.enrich._document import CapabilityFile
from pytools_hybrid.jobs.enrich._prompt import INSTRUCTIONS, Said, Subject, prompt_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from toolindex import ToolFilter
    from toolscan import ToolRecord

    from pytools_hybrid.settings import Roots

TOOLS_PER_REQUEST = 10
_BYTES_PER_TOKEN = 4
# The tokens of six requests, ten terms and the JSON around them.
_TOKENS_SAID_OF_TOOL = 140


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, for tools of one root and one category.

    Tools of different categories have different authors: one author's description must not
    influence what is written about another's tools.
    """

    root: Path
    subjects: tuple[Subject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnrichmentPlan:
    """A plan of requests.

    Attributes:
        requests: The requests, in the order of ids.
        unchanged: How many tools have an entry and have not changed since.
        by_hand: How many tools have an entry that a person wrote.
        left: How many tools are left for a later run.
    """

    requests: tuple[Request, ...] = ()
    unchanged: int = 0
    by_hand: int = 0
    left: int = 0

    @property
    def ids(self) -> tuple[str, ...]:
        """The tools to ask about."""
        return tuple(subject.id for request in self.requests for subject in request.subjects)

    @property
    def tokens(self) -> tuple[int, int]:
        """The estimated tokens of the requests and of the answers."""
        once = len(INSTRUCTIONS) + len(str(Said.model_json_schema()))
        sent = sum(
            once + len(prompt_of(request.subjects).encode("utf-8", "replace"))
            for request in self.requests
        )
        return sent // _BYTES_PER_TOKEN, _TOKENS_SAID_OF_TOOL * len(self.ids)


def plan_enrichment(
    roots: Roots,
    *,
    policy: ToolFilter | None = None,
    categories: Collection[str] = (),
    limit: int | None = None,
    outside_links: bool = False,
) -> EnrichmentPlan:
    """Plan requests from the tools and their existing entries.

    Raises:
        CapabilitiesError: The file of a root is invalid, so entries that people wrote there could
            be lost.
        RootUnreadableError: A root cannot be listed.
    """
    scanned, unreadable = scan_roots(roots, outside_links=outside_links)
    if unreadable:
        raise unreadable[0]
    known = {root: CapabilityFile(root).read().entries for root in roots}
    wanted: defaultdict[tuple[Path, str, str], list[Subject]] = defaultdict(list)
    unchanged = by_hand = taken = left = 0
    for record in sorted(scanned.records, key=lambda each: str(each.id)):
        root, _ = roots.locate(record.path)
        if not _is_wanted(record, policy, categories):
            continue
        said = known[root].get(str(record.id))
        if said is not None and said.text_hash is None:
            by_hand += 1
        elif said is not None and said.text_hash == record.text_hash:
            unchanged += 1
        elif limit is not None and taken >= limit:
            left += 1
        else:
            taken += 1
            wanted[root, record.id.source, record.id.category].append(Subject.of(record))
    requests = tuple(
        Request(root=root, subjects=subjects)
        for (root, _, _), all_subjects in wanted.items()
        for subjects in _parts(all_subjects)
    )
    return EnrichmentPlan(requests=requests, unchanged=unchanged, by_hand=by_hand, left=left)


def price_of(model: str, tokens: tuple[int, int]) -> float | None:
    """Return the price of some tokens with a model in US dollars, or None if unknown."""
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.usage import RequestUsage

    provider, _, name = model.partition(":")
    if not name:
        return None
    sent, said = tokens
    usage = RequestUsage(input_tokens=sent, output_tokens=said)
    response = ModelResponse(
        parts=[],
        usage=usage,
        model_name=name,
        provider_name=provider.removeprefix("gateway/"),
    )
    try:
        return float(response.cost().total_price)
    except LookupError:
        return None


def _is_wanted(record: ToolRecord, policy: ToolFilter | None, categories: Collection[str]) -> bool:
    if categories and record.id.category not in categories:
        return False
    return policy is None or policy.passes_id(str(record.id))


def _parts(subjects: list[Subject]) -> Iterator[tuple[Subject, ...]]:
    """Divide evenly, because even a small last request costs the tokens of the instructions."""
    requests = -(-len(subjects) // TOOLS_PER_REQUEST)
    for number in range(requests):
        begin = number * len(subjects) // requests
        end = (number + 1) * len(subjects) // requests
        yield tuple(subjects[begin:end])
