"""A measure by its name, as it stands in a table's header: `recall@5`, `mrr`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolrank.errors import RankingArgumentError
from toolrank.metrics import _formulas

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from toolrank.metrics._formulas import Relevant

_MRR = "mrr"
_FORMULAS: Mapping[str, Callable[[Sequence[str], Relevant, int], float]] = {
    "recall": _formulas.recall,
    "precision": _formulas.precision,
    "hit": _formulas.hit,
    "ndcg": _formulas.ndcg,
    "completeness": _formulas.completeness,
    _MRR: _formulas.reciprocal_rank,
}
_EXISTING = ", ".join([*(f"{name}@k" for name in _FORMULAS), _MRR])
_WRITTEN = re.compile(r"(?P<name>[a-z]+)(?:@(?P<k>[1-9][0-9]{0,8}))?")


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure and its number of places; call it with a ranking to get the value.

    `str(measure)` is the name that `parse` reads.

    Attributes:
        name: recall, precision, hit, ndcg, completeness or mrr.
        k: The number of places looked at; None, for mrr alone, means all.

    Raises:
        RankingArgumentError: A name that does not exist, or a k that is missing or below one.
    """

    name: str
    k: int | None = None

    def __post_init__(self) -> None:
        if self.name not in _FORMULAS:
            raise _unknown(self.name)
        if self.k is None and self.name != _MRR:
            raise RankingArgumentError("measure", f"{self.name!r} needs a k: {self.name}@10")
        _formulas.check_k(self.k)

    @classmethod
    def parse(cls, text: str) -> Measure:
        """Read a measure's name, as a user writes it.

        Raises:
            RankingArgumentError: No such measure; the message names those that exist.
        """
        written = _WRITTEN.fullmatch(text)
        if written is None:
            raise _unknown(text)
        name, k = written["name"], written["k"]
        return cls(name, None if k is None else int(k))

    def __call__(self, ranked: Sequence[str], relevant: Relevant) -> float:
        """Return the value for one query: the ids found, best first, against the relevant ones."""
        if self.k is None:
            return _formulas.reciprocal_rank(ranked, relevant)
        return _FORMULAS[self.name](ranked, relevant, self.k)

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"


def _unknown(text: str) -> RankingArgumentError:
    return RankingArgumentError(
        "measure", f"no measure is called {text!r}; there are {_EXISTING}, with k from 1"
    )
