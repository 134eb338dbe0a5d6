"""What templates draw: highlighted words, and plots as values for SVG.

A plot is bars and lines in a box of 100 by 100, with a slot for each day. Its text is HTML outside
the SVG, so it stays readable if the plot is small. Colour is never the only difference: bars are
filled or hollow, lines are solid or dashed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol
from urllib.parse import urlencode

from markupsafe import Markup, escape

from pytools_hybrid.text import readable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import date

Kind = Literal["whole", "hollow", "dashed"]
"""How a bar or a line is drawn: the class of its style."""

_BAR_WIDTH = 0.8
_WORD = re.compile(r"[^\W_]+")
_CORRECTION = "→"
_SHORT_WORD = 4
_LONGEST_ENDING = 3
_LONGEST_LINK = 1_200


class Bar(NamedTuple):
    """A part of a day's bar, with its edges, its size and its tooltip."""

    kind: Kind
    x: float
    y: float
    width: float
    height: float
    title: str


class Line(NamedTuple):
    """A line with gaps, with its path in SVG's notation."""

    kind: Kind
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """A plot.

    Attributes:
        title: What it shows.
        keys: The legend: the meaning of each kind of bar or line.
        top: The value at the upper edge.
        first: The first day.
        last: The last day.
        bars: Its bars.
        lines: Its lines.
    """

    title: str
    keys: Mapping[Kind, str]
    top: str
    first: date
    last: date
    bars: Sequence[Bar] = ()
    lines: Sequence[Line] = ()


class _Timed(Protocol):
    """A day's figures that include a latency."""

    @property
    def latency_p50_ms(self) -> float | None: ...
    @property
    def latency_p95_ms(self) -> float | None: ...


def last_days(count: int) -> list[date]:
    """Return the last days up to today in UTC, oldest first."""
    today = datetime.now(UTC).date()
    return [today - timedelta(days=ago) for ago in reversed(range(count))]


def midnight(day: date) -> float:
    """Return when a day begins in UTC, in seconds since 1970."""
    return datetime.combine(day, datetime.min.time(), UTC).timestamp()


def bar_plot(
    title: str,
    days: Sequence[date],
    keys: Mapping[Kind, str],
    bars: Mapping[date, tuple[Sequence[float], str]],
) -> Plot:
    """Return a plot with a bar for each day.

    Args:
        title: What it shows.
        days: The days.
        keys: The parts of a bar, from the bottom.
        bars: The values of the parts of a day's bar, and its tooltip.
    """
    top = _rounded_up(max(sum(values) for values, _ in bars.values()))
    slot = 100 / len(days)
    made: list[Bar] = []
    for number, day in enumerate(days):
        values, told = bars.get(day, ((), ""))
        x, y = _short(slot * (number + (1 - _BAR_WIDTH) / 2)), 100.0
        for kind, value in zip(keys, values, strict=False):
            height = 100 * value / top
            y -= height
            made.append(Bar(kind, x, _short(y), _short(slot * _BAR_WIDTH), _short(height), told))
    return Plot(title=title, keys=keys, top=f"{top:,.0f}", first=days[0], last=days[-1], bars=made)


def latency_plot(title: str, days: Sequence[date], figures: Mapping[date, _Timed]) -> Plot:
    """Return a plot of the median and the 95th percentile of each day."""
    top = _rounded_up(max(it.latency_p95_ms or 0.0 for it in figures.values()))
    shown = [figures.get(day) for day in days]
    medians = [None if it is None else it.latency_p50_ms for it in shown]
    slowest = [None if it is None else it.latency_p95_ms for it in shown]
    return Plot(
        title=title,
        keys={"whole": "median", "dashed": "95th percentile"},
        top=f"{top:,.0f} ms",
        first=days[0],
        last=days[-1],
        lines=[_line("whole", medians, top), _line("dashed", slowest, top)],
    )


def _line(kind: Kind, values: Sequence[float | None], top: float) -> Line:
    """Return a line with a step for each day, and gaps for days without a value."""
    slot = 100 / len(values)
    parts: list[str] = []
    before: float | None = None
    for number, value in enumerate(values):
        if value is not None:
            y = _short(100 - 100 * value / top)
            start = f"M{_short(slot * number)} {y}" if before is None else f"V{y}"
            parts.append(f"{start}H{_short(slot * (number + 1))}")
        before = value
    return Line(kind, "".join(parts))


def _rounded_up(value: float) -> float:
    """Round up to the next of 1, 2, 3, 4, 5, 6, 8, 10, 20, 30 and so on."""
    step = 1.0
    while True:
        for factor in (1, 2, 3, 4, 5, 6, 8):
            if step * factor >= value:
                return step * factor
        step *= 10


def _short(number: float) -> float:
    return round(number, 2)


def stacked(shares: Iterable[float]) -> list[tuple[float, float]]:
    """Return the start and the length of several shares in a bar of length 100."""
    lengths = [_short(100 * share) for share in shares]
    return [(_short(sum(lengths[:at])), length) for at, length in enumerate(lengths)]


def query_links(queries: Iterable[tuple[str, int]]) -> list[tuple[str, str, int]]:
    """Return each query with a link to its search, which is empty if it would be too long."""
    links = [(query, "/?" + urlencode({"q": query}, errors="replace"), n) for query, n in queries]
    return [(query, link if len(link) <= _LONGEST_LINK else "", n) for query, link, n in links]


def highlighted(text: str, terms: Iterable[str]) -> Markup:
    """Return a text as HTML that marks the words of a request, in any inflected form.

    Args:
        text: The text.
        terms: The terms of the request that the tool contains, as returned by `ToolSearch.terms`.
    """
    wanted = {form.lower() for term in terms for form in term.split(_CORRECTION)}
    parts: list[Markup] = []
    end = 0
    text = readable(text)
    for word in _WORD.finditer(text):
        if any(_is_form_of(word[0].lower(), each) for each in wanted):
            parts += [escape(text[end : word.start()]), Markup("<mark>%s</mark>") % word[0]]
            end = word.end()
    return Markup("").join([*parts, escape(text[end:])])


def _is_form_of(word: str, term: str) -> bool:
    """Return whether a word and a term differ only in their endings, like 'merging' and 'merge'."""
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, term, strict=False)))
    shorter, longer = sorted([len(word), len(term)])
    if longer - shorter > _LONGEST_ENDING:
        return False
    return same == shorter if shorter <= _SHORT_WORD else same >= shorter - 1
