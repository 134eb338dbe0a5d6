"""Runs and judgements as the text files that the field's tools read and write.

A run has lines of `qid Q0 docid rank score tag`, judgements have `qid 0 docid rel`; fields end
at ASCII whitespace. Our ids may contain any character, so unprintable characters, spaces and `%`
are percent-encoded (`%XX` for each byte of UTF-8). In files of other programs, a `%` that is not
followed by two hexadecimal digits is kept.
"""

from __future__ import annotations

import codecs
import math
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from toolrank._records import Hit, RankedHit
from toolrank.errors import RankingArgumentError, ToolRankError
from toolrank.metrics._formulas import as_gains, check_ids

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from toolrank.metrics._formulas import Relevant

_RUN = "qid Q0 docid rank score tag"
_QRELS = "qid 0 docid rel"


class TrecFormatError(ToolRankError, ValueError):
    """A line of a file does not have the expected format.

    Attributes:
        path: The file.
        line: The number of the line, from 1.
        expected: The fields of a good line.
    """

    def __init__(self, path: Path, line: int, expected: str, problem: str) -> None:
        super().__init__(f"{path}, line {line}: {problem}; write the line as: {expected}")
        self.path = path
        self.line = line
        self.expected = expected


def ranked_ids(run: Mapping[str, Sequence[Hit | RankedHit]]) -> dict[str, list[str]]:
    """Return the run that `evaluate` takes: each query's ids in their order, without scores."""
    return {query: [hit.id for hit in hits] for query, hits in run.items()}


def write_run(
    path: str | os.PathLike[str],
    run: Mapping[str, Sequence[Hit | RankedHit]],
    *,
    tag: str = "toolrank",
) -> None:
    """Write rankings for `read_run`, trec_eval and their like; an existing file is replaced.

    A query that found nothing has no line, and every evaluation counts it as 0 all the same.
    Where scores are equal, `read_run` keeps the order by the rank, but trec_eval takes the
    greatest id first, whatever the rank; and it reads scores in single precision, so that to it
    all scores are equal that differ by less than one part in ten million.

    Args:
        path: The file.
        run: By query id, the hits, best first.
        tag: The name of the run.

    Raises:
        RankingArgumentError: An empty id or tag, an id that is twice in a list, a score that is
            not finite, or one above that of the hit before: every reader sorts by score.
    """
    last = _field(tag, argument="tag")
    lines = [
        f"{_field(query, argument='run')} Q0 {_field(hit.id, argument='run')} "
        f"{rank} {float(hit.score)!r} {last}\n"
        for query, hits in run.items()
        for rank, hit in enumerate(_ordered(query, hits), start=1)
    ]
    Path(path).write_text("".join(lines), encoding="utf-8", newline="\n")


def read_run(path: str | os.PathLike[str]) -> dict[str, list[Hit]]:
    """Read rankings, each sorted by score, best first; equal scores by rank, then by id.

    Blank lines are ignored.

    Raises:
        TrecFormatError: A line that is not of the format, or an id that is twice in a query.
    """
    source = Path(path)
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for number, (query, _, id_, rank, score, _) in _lines(source, _RUN):
        hits = found.setdefault(query, {})
        if id_ in hits:
            raise TrecFormatError(source, number, _RUN, f"{id_!r} is twice in query {query!r}")
        try:
            hits[id_] = -_finite(score), int(rank)
        except ValueError as error:
            raise TrecFormatError(
                source, number, _RUN, f"rank {rank!r} and score {score!r} are not two numbers"
            ) from error
    return {
        query: [
            Hit(id=id_, score=-negated)
            for (negated, _), id_ in sorted((place, id_) for id_, place in hits.items())
        ]
        for query, hits in found.items()
    }


def write_qrels(path: str | os.PathLike[str], qrels: Mapping[str, Relevant]) -> None:
    """Write judgements for `read_qrels`, trec_eval and their like; an existing file is replaced.

    Args:
        path: The file.
        qrels: By query id, the relevant ids, written with 1, or the gain of each id.

    Raises:
        RankingArgumentError: An empty id, a query without ids, or a gain with a fraction: the
            format knows whole numbers only.
    """
    lines = [
        f"{_field(query, argument='qrels')} 0 {_field(id_, argument='qrels')} {gain}\n"
        for query, relevant in qrels.items()
        for id_, gain in sorted(_whole_gains(query, relevant).items())
    ]
    Path(path).write_text("".join(lines), encoding="utf-8", newline="\n")


def read_qrels(path: str | os.PathLike[str]) -> dict[str, dict[str, int]]:
    """Read judgements: by query id, the gain of each id. Blank lines are ignored.

    Raises:
        TrecFormatError: A line that is not of the format, or an id that is twice in a query.
    """
    source = Path(path)
    qrels: dict[str, dict[str, int]] = {}
    for number, (query, _, id_, gain) in _lines(source, _QRELS):
        gains = qrels.setdefault(query, {})
        if id_ in gains:
            raise TrecFormatError(source, number, _QRELS, f"{id_!r} is twice in query {query!r}")
        try:
            gains[id_] = int(gain)
        except ValueError as error:
            raise TrecFormatError(
                source, number, _QRELS, f"rel {gain!r} is not a whole number"
            ) from error
    return qrels


def _lines(path: Path, form: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the decoded fields of each line that is not blank."""
    count = len(form.split())
    # Bytes split at ASCII whitespace alone, as C does; text would split inside foreign ids.
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                fields = [
                    unquote(field.decode("utf-8"), errors="surrogatepass")
                    for field in line.removeprefix(codecs.BOM_UTF8 if number == 1 else b"").split()
                ]
            except UnicodeDecodeError as error:
                raise TrecFormatError(path, number, form, "it is not UTF-8") from error
            if fields and len(fields) != count:
                raise TrecFormatError(
                    path, number, form, f"{len(fields)} fields, where {count} belong"
                )
            if fields:
                yield number, fields


def _field(text: str, *, argument: str) -> str:
    """Encode a text as one field without spaces."""
    if not text:
        raise RankingArgumentError(argument, "holds an empty name, which no field can; name it")
    return "".join(
        # Lone surrogates cannot be UTF-8; they come from file names that are not.
        char if char.isprintable() and char not in " %" else quote(char, errors="surrogatepass")
        for char in text
    )


def _ordered(query: str, hits: Sequence[Hit | RankedHit]) -> Sequence[Hit | RankedHit]:
    """Refuse a list that could not be read back unchanged."""
    seen: set[str] = set()
    before = math.inf
    for hit in hits:
        if hit.id in seen:
            raise RankingArgumentError("run", f"query {query!r}: {hit.id!r} is there twice")
        if not (math.isfinite(hit.score) and hit.score <= before):
            raise RankingArgumentError(
                "run",
                f"query {query!r}: {hit.id!r} has score {hit.score} after {before}; every reader "
                "sorts by score, so give finite ones that fall with the rank",
            )
        seen.add(hit.id)
        before = hit.score
    return hits


def _whole_gains(query: str, relevant: Relevant) -> dict[str, int]:
    check_ids(relevant, argument="qrels", of=f"query {query!r}")
    given = as_gains(relevant)
    if not given:
        raise RankingArgumentError("qrels", f"query {query!r} has no ids; leave it out")
    for id_, gain in given.items():
        if not (math.isfinite(gain) and gain == int(gain)):
            raise RankingArgumentError(
                "qrels", f"query {query!r}: the gain of {id_!r} is {gain}; give a whole number"
            )
    return {id_: int(gain) for id_, gain in given.items()}


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
