"""Rows that are equal, or nearly so: one result represents them."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from toolrank.protocols import Candidates

# "Get details" says too little to tell that two rows are the same.
_TELLING_WORDS = 5
# One word in forty may differ.
_SAME = 0.95
# Of one name, so that time stays linear.
_MAX_VARIANTS = 8
# A few kilobytes each.
_MOST_TRAITS = 4_096


class _Traits(NamedTuple):
    """What tells whether rows of the same name are equal, as `Candidates.traits` describes it.

    Attributes:
        words: The distinct words of the row's text.
        is_telling: Whether the text has enough words to tell.
        details: What else has to be the same.
        identity: What equal rows of different groups have in common; None if it cannot be told.
    """

    words: frozenset[str]
    is_telling: bool
    details: frozenset[str]
    identity: Hashable | None


class Equals(NamedTuple):
    """The rows that a result stands for, without itself."""

    duplicates: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    @property
    def ids(self) -> tuple[str, ...]:
        """All of them."""
        return (*self.duplicates, *self.also)


ALONE = Equals()


class EqualRows:
    """Finds equal rows by their names and traits.

    Within one group, rows are duplicates if their names are the same, or differ by a prefix, and
    their texts and details nearly so. Equal rows of different groups, such as two accounts, are one
    result, too; all such results of an answer come from the same group, if it has them all.

    Args:
        group: Returns a row's group by its id.
        name: Returns its name.
        label: Returns the words by which requests mention a group, as one text.
        split: Splits a name or a text into lower-case words.
    """

    def __init__(
        self,
        group: Callable[[str], str],
        name: Callable[[str], str],
        label: Callable[[str], str],
        split: Callable[[str], Sequence[str]],
    ) -> None:
        self._group = group
        self._name = name
        self._label = label
        self._split = split
        self._keys = lru_cache(maxsize=1 << 16)(self._keys_of)
        self._state: Hashable = None
        self._traits: dict[str, _Traits] = {}

    def distinct(
        self, ids: Sequence[str], candidates: Candidates, request: str
    ) -> Iterator[tuple[str, Equals]]:
        """Yield the ids to show, each with those of the rows that it stands for."""
        roots = self._roots(ids)
        if len({*roots.values()}) == len(roots):
            yield from ((id_, ALONE) for id_ in ids)
            return
        alike: dict[str, list[str]] = defaultdict(list)
        for id_, root in roots.items():
            alike[root].append(id_)
        known: dict[str, dict[str, Equals]] = {}
        for id_, root in roots.items():
            if len(alike[root]) == 1:
                yield id_, ALONE
                continue
            if root not in known:
                known[root] = self._resolved(root, alike, candidates, request)
            if (equals := known[root].get(id_)) is not None:
                yield id_, equals

    def _resolved(
        self, root: str, alike: Mapping[str, Sequence[str]], candidates: Candidates, request: str
    ) -> dict[str, Equals]:
        """Return which of the rows with one name to show, each with those that it stands for."""
        traits = self._traits_of(alike[root], candidates)

        # By details, the rows that were kept; by row, its duplicates.
        variants: dict[frozenset[str], list[str]] = defaultdict(list)
        duplicates: dict[str, list[str]] = {}
        for id_ in alike[root]:
            its = traits.get(id_)
            if its is not None and (its.is_telling or self._has_groups_prefix(id_, root)):
                kept = variants[its.details | {self._group(id_)}]
                same = (it for it in kept[:_MAX_VARIANTS] if _are_alike(traits[it], its))
                if (first := next(same, None)) is not None:
                    duplicates[first].append(id_)
                    continue
                kept.append(id_)
            duplicates[id_] = []
        equal: dict[Hashable, list[str]] = defaultdict(list)
        for id_ in duplicates:
            its = traits.get(id_)
            equal[id_ if its is None else its.identity or id_].append(id_)
        shown: dict[str, Equals] = {}
        for ids in equal.values():
            first = ids[0]
            if len(ids) > 1:
                place = self._preference(alike.values(), request)
                first = min(ids, key=lambda id_: place[self._group(id_)])
            also = tuple(id_ for id_ in ids if id_ != first)
            shown[first] = Equals(tuple(duplicates[first]), also)
        return shown

    def _traits_of(self, ids: Sequence[str], candidates: Candidates) -> Mapping[str, _Traits]:
        state = candidates.state()
        if self._state != state or len(self._traits) > _MOST_TRAITS:
            # A new dictionary: another search may still be reading the last one.
            self._state, self._traits = state, {}
        traits = self._traits
        if missing := [id_ for id_ in ids if id_ not in traits]:
            for id_, (words, details, identity) in candidates.traits(missing).items():
                is_telling = len(words) >= _TELLING_WORDS
                whole = identity if is_telling else None
                traits[id_] = _Traits(frozenset(words), is_telling, frozenset(details), whole)
        return traits

    def _keys_of(self, id_: str) -> tuple[str, tuple[str, ...]]:
        """Return a row's group with the letters of its name, and with those of its last words."""
        group, words = self._group(id_), self._split(self._name(id_))
        keys = [f"{group}:{''.join(words[at:])}" for at in range(len(words) - 1, -1, -1)] or [id_]
        return keys[-1], tuple(keys[:-1])

    def _roots(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the letters of each name, without a prefix if its group has the rest alone."""
        keys = [*map(self._keys, ids)]
        have = {whole for whole, _ in keys}
        shorter = have.intersection(chain.from_iterable(ends for _, ends in keys))
        return {
            id_: next((key for key in ends if key in shorter), whole).rpartition(":")[2]
            for id_, (whole, ends) in zip(ids, keys, strict=True)
        }

    def _has_groups_prefix(self, id_: str, root: str) -> bool:
        """Return whether a name differs from its root by the name of its group, or not at all."""
        prefix = "".join(self._split(self._name(id_))).removesuffix(root)
        return prefix in "".join(self._split(self._label(self._group(id_))))

    def _preference(self, names: Iterable[Sequence[str]], request: str) -> dict[str, int]:
        """Return each group's place in the order in which those with equal rows are preferred.

        First come groups that the request mentions, then those with the most of the names that
        several groups have: one answer prefers the same group for all of its equal rows.

        Args:
            names: The ids of the rows with one name, for each name.
            request: The request.
        """
        counts: Counter[str] = Counter()
        for ids in names:
            groups = {*map(self._group, ids)}
            if len(groups) > 1:
                counts.update(groups)
        words = {group: {*self._split(self._label(group))} for group in counts}
        shared: set[str] = set[str].intersection(*words.values())
        asked = {*self._split(request)}
        order = sorted(counts, key=lambda it: (-len((words[it] - shared) & asked), -counts[it], it))
        return {group: at for at, group in enumerate(order)}


def _are_alike(one: _Traits, other: _Traits) -> bool:
    union = len(one.words | other.words)
    # Two texts without words are the same.
    return not union or len(one.words & other.words) / union >= _SAME
