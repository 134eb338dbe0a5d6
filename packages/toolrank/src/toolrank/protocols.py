"""Protocols: candidates of your own, a database connection, a fusion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

    from toolrank._fusion import FusedScores
    from toolrank._records import Hit

__all__ = ["Candidates"]


class Connection(Protocol):
    """The part of a SQLite connection that retrieval uses.

    `sqlite3.Connection` and `apsw.Connection` both have it.
    """

    def execute(self, sql: str, parameters: Any, /) -> Iterable[Any]:  # noqa: ANN401 - drivers differ
        """Run one statement and return its rows as tuples."""
        ...


class Fusion(Protocol):
    """A function that fuses several rankings: `linear_fusion`, `reciprocal_rank_fusion`."""

    def __call__(
        self,
        rankings: Mapping[str, Sequence[Hit]],
        *,
        weights: Mapping[str, float] | None = None,
        floors: Mapping[str, float] | None = None,
        missing: Mapping[str, Collection[str]] | None = None,
    ) -> FusedScores:
        """Fuse lists by name, each best first; their order must not matter."""
        ...


class Candidates(Protocol):
    """One state of the rows that `HybridSearch` searches; `Tables` reads it from SQLite.

    Lists have at most `depth` hits, best first, each id once, equal scores in the order of their
    ids, scores finite. A shorter list is the beginning of a longer one, except for ties at its end.
    Any string is a query; one that cannot be answered finds nothing. Methods raise only if the
    source itself is broken.

    `toolrank.testing.check_candidates` checks an implementation.
    """

    def lexical(self, query: str, /, *, depth: int) -> Sequence[Hit]:
        """Return the best rows that share words with a query."""
        ...

    def fuzzy(self, query: str, /, *, depth: int) -> Sequence[Hit]:
        """Return the best rows with words that are spelt like those of a query."""
        ...

    def nearest(
        self, vector: Sequence[float], /, *, depth: int, then: Sequence[Sequence[float]] = ()
    ) -> Sequence[Hit]:
        """Return the best rows by the cosine of their vectors.

        Args:
            vector: The vector of a query.
            depth: How many at most.
            then: What will be asked for next, for rows that can be scored at the same time.
        """
        ...

    def named(self, query: str, /) -> Sequence[Hit]:
        """Return the rows that a query names, those with the best score first."""
        ...

    def corrections(self, query: str, /) -> Mapping[str, str]:
        """Return the words of a query that no row has, with their corrections."""
        ...

    def coverage(
        self, query: str, ids: Sequence[str], /, *, unknown: float = 0.0
    ) -> Mapping[str, float]:
        """Return the share of a query's terms that some rows have, by id.

        Of a term that no row has, `unknown` counts as had. Rows without any may be left out.
        """
        ...

    def scale(self, query: str, /) -> float:
        """Return the divisor that makes scores by words comparable between queries."""
        ...

    @property
    def unfiltered(self) -> Candidates | None:
        """The same without the filter, to compare what passes it with; None without a filter."""
        ...

    @property
    def lacks_vectors(self) -> bool:
        """Whether some rows have no vector."""
        ...

    def with_vectors(self, ids: Collection[str], /) -> Collection[str]:
        """Return which of some rows have a vector."""
        ...

    def existing(self, ids: Sequence[str], /) -> Collection[str]:
        """Return which of some ids can be shown."""
        ...

    def traits(
        self, ids: Sequence[str], /
    ) -> Mapping[str, tuple[Sequence[str], Iterable[str], Hashable | None]]:
        """Return what tells whether rows of one name are equal; one without is kept as it is.

        Returns:
            By id, the words of the row's text; what else has to be the same, such as the
            parameters of a tool; what equal rows of different groups have in common, or None.
        """
        ...

    def state(self) -> Hashable:
        """Return a key of the state, until which traits are cached."""
        ...
