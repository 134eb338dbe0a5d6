"""The usage examples in a docstring."""

from __future__ import annotations

import re
import textwrap

_MAX_EXAMPLES = 10
_MAX_TEXT = 100_000
_MAX_LENGTH = 2_000
_TITLE = re.compile(
    r"([ \t]*)(?:#+[ \t]*|\*\*|__)?(?:usage )?examples?"
    r"(?:\*\*|__)?[ \t]*(:(?:\*\*|__)?)?[ \t]*(.*)",
    re.IGNORECASE,
)
_UNDERLINE = re.compile(r"[ \t]*-{3,}[ \t]*")
# Another section: "Returns:", "Returns" over a line of dashes, "## Notes", ":param x:".
_OTHER_TITLE = re.compile(r"[ \t]*(?:(\*\*|__|)[A-Z][\w ]{1,30}(?:\1:|:\1)|#+ .*|:\w+.*)")
_FENCE = "```"


def docstring_examples(text: str) -> tuple[str, ...]:
    """Return the examples of a docstring in order: at most 10, each at most 2,000 characters.

    An example is a paragraph of a section called "Example", "Examples" or "Usage examples"
    (Google's, NumPy's and Markdown's way of writing them), a fenced block there, or a doctest
    anywhere.
    """
    lines = text[:_MAX_TEXT].split("\n")
    found: list[str] = []
    number = 0
    while number < len(lines):
        if (start := _section(lines, number)) is not None:
            body, number = _body(lines, *start)
            found += _paragraphs(body)
        elif lines[number].lstrip().startswith(">>> "):
            end = number
            while end < len(lines) and lines[end].strip():
                end += 1
            found += _paragraphs(lines[number:end])
            number = end
        else:
            number += 1
    return tuple(example[:_MAX_LENGTH] for example in dict.fromkeys(found))[:_MAX_EXAMPLES]


def _section(lines: list[str], number: int) -> tuple[int, int, str] | None:
    """Return where a section's text begins, its indent, and the text after its title."""
    title = _TITLE.fullmatch(lines[number])
    if title is None:
        return None
    indent, colon, beside = len(title[1]), title[2], title[3]
    if number + 1 < len(lines) and _UNDERLINE.fullmatch(lines[number + 1]) and not beside:
        return number + 2, indent, ""
    is_heading = lines[number].lstrip().startswith("#") and not beside
    return (number + 1, indent, beside) if colon or is_heading else None


def _body(lines: list[str], start: int, indent: int, beside: str) -> tuple[list[str], int]:
    """Return a section's lines, and the number of the line after it."""
    first = next((line for line in lines[start:] if line.strip()), "")
    is_indented = _indent(first) > indent
    end, in_fence = start, False
    while end < len(lines):
        line = lines[end]
        if line.strip() and not in_fence:
            ends = _indent(line) <= indent if is_indented else _is_title(lines, end)
            # The text after the title is the whole section, unless more is indented below it.
            if ends or (beside and not is_indented):
                break
        in_fence ^= line.lstrip().startswith(_FENCE)
        end += 1
    return [beside, *lines[start:end]] if beside else lines[start:end], end


def _is_title(lines: list[str], number: int) -> bool:
    underlined = number + 1 < len(lines) and _UNDERLINE.fullmatch(lines[number + 1])
    return bool(underlined) or bool(_OTHER_TITLE.fullmatch(lines[number]))


def _paragraphs(lines: list[str]) -> list[str]:
    """Split lines at blank lines outside fences; the fences themselves are removed."""
    paragraphs: list[list[str]] = [[]]
    in_fence = False
    for line in lines:
        if line.lstrip().startswith(_FENCE):
            in_fence = not in_fence
            paragraphs.append([])
        elif line.strip() or in_fence:
            paragraphs[-1].append(line)
        else:
            paragraphs.append([])
    texts = (textwrap.dedent("\n".join(paragraph)).strip() for paragraph in paragraphs)
    return [text for text in texts if text]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
