"""Draw the figure of the README, recall and latency, from the tables of RESULTS.md.

    uv run python benchmarks/figure.py > docs/images/recall-latency.svg

A test checks that the figure is what this prints. It is drawn by hand, so that it is small,
readable on light and dark pages, and needs no library.
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path
from typing import NamedTuple

RESULTS = Path(__file__).with_name("RESULTS.md")
# The beginnings of rows of RESULTS.md, and their labels.
PEERS = {
    "langgraph-bigtool 0.0.3 (our embedder)": "langgraph-bigtool, our model",
    "bm25s 0.3.16, stop words, snowball": "bm25s 0.3.16",
    "FTS5, porter": "SQLite FTS5, porter",
    "FastMCP 4.1.2, BM25SearchTransform": "FastMCP 4.1.2, BM25",
    "rank-bm25 0.2.2": "rank-bm25 0.2.2",
}
SIZES = ("100 tools", "1,000 tools", "10,000 tools")
WIDTH, HEIGHT = 760, 240
_TOP, _ROW, _BAR = 56, 26, 16
_LABELS, _BARS = 228, 150
_RIGHT = 476
_RIGHT_LABELS, _RIGHT_BARS = 92, 132
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.head { font-weight: 600; }
.small { font-size: 11px; fill: #57606a; }
.ours { fill: #0969da; }
.other { fill: #8c959f; }
.slow { fill: #b6d7ff; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .small { fill: #9198a1; }
  .slow { fill: #1f4b82; }
}"""


class Bar(NamedTuple):
    """A bar of the left half.

    Attributes:
        label: Its label.
        value: Its length, from 0 to 1.
        is_ours: Whether it is highlighted.
    """

    label: str
    value: float
    is_ours: bool


def main() -> None:
    """Print the figure."""
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    results = RESULTS.read_text("utf-8")
    print(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="Recall and latency">\n<style>\n{_STYLE}\n</style>'
    )
    draw_recall(recalls(results))
    draw_latency(latencies(results))
    print("</svg>")


def recalls(results: str) -> list[Bar]:
    """Read the recall at five of the peers, and ours with weights not trained on the queries."""
    hybrid = numbers(results, "**hybrid, now**")[0]
    words = numbers(results, "words alone, mean")[0]
    bars = [Bar("pytools-hybrid", hybrid, True), Bar("pytools-hybrid, words alone", words, True)]
    bars += [Bar(label, numbers(results, row)[1], False) for row, label in PEERS.items()]
    return sorted(bars, key=lambda bar: -bar.value)


def latencies(results: str) -> list[tuple[str, float, float]]:
    """Read the milliseconds of a fresh search over MCP, p50 and p95, by the number of tools."""
    p50 = numbers(results, "search, fresh, stdio, p50")
    p95 = numbers(results, "search, fresh, stdio, p95")
    return list(zip(SIZES, p50, p95, strict=False))


def numbers(results: str, row: str) -> list[float]:
    """Return the first number of each cell of a row."""
    found = re.search(rf"^\| {re.escape(row)} \| (.+)\|$", results, re.M)
    if found is None:
        raise SystemExit(f"{RESULTS} has no row {row}")
    cells = (re.search(r"\d*\.?\d+", cell) for cell in found[1].split("|"))
    return [float(cell[0]) for cell in cells if cell]


def draw_recall(bars: list[Bar]) -> None:
    """Print the left half."""
    text(0, 18, "Right tools among the first five", "head")
    text(0, 36, "mean of MetaTool, BFCL and StableToolBench, dev halves", "small")
    for number, bar in enumerate(bars):
        y = _TOP + number * _ROW
        text(0, y + 13, bar.label, "head" if bar.is_ours else "")
        rect(_LABELS, y, _BARS * bar.value, "ours" if bar.is_ours else "other")
        text(_LABELS + _BARS * bar.value + 6, y + 13, f"{bar.value:.3f}", "small")


def draw_latency(rows: list[tuple[str, float, float]]) -> None:
    """Print the right half."""
    text(_RIGHT, 18, "Milliseconds a search, over MCP", "head")
    text(_RIGHT, 36, "fresh queries, two shared cores: p50 and p95", "small")
    longest = max(p95 for _, _, p95 in rows)
    for number, (label, p50, p95) in enumerate(rows):
        y = _TOP + number * _ROW
        text(_RIGHT, y + 13, label)
        x = _RIGHT + _RIGHT_LABELS
        rect(x, y, _RIGHT_BARS * p95 / longest, "slow")
        rect(x, y, _RIGHT_BARS * p50 / longest, "ours")
        text(x + _RIGHT_BARS * p95 / longest + 6, y + 13, f"{p50:.0f}, {p95:.0f}", "small")


def text(x: float, y: float, content: str, style: str = "") -> None:
    """Print a text."""
    of = f' class="{style}"' if style else ""
    print(f'<text x="{x:.0f}" y="{y:.0f}"{of}>{escape(content)}</text>')


def rect(x: float, y: float, width: float, style: str) -> None:
    """Print a bar."""
    print(f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{_BAR}" class="{style}"/>')


if __name__ == "__main__":
    main()
