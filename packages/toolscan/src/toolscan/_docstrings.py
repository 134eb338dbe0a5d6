"""The contents of docstrings: the description, the summary, parameters, tags."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolscan._hashing import split_identifier
from toolscan._sections import parameter_descriptions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolscan._layout import ToolId

# Words about calling a tool and getting its result, which describe every tool.
_CALLING = frozenset(
    [
        "run",
        "runs",
        "running",
        "call",
        "calls",
        "calling",
        "invoke",
        "invokes",
        "invoking",
        "execute",
        "executes",
        "executing",
        "perform",
        "performs",
        "tool",
        "tools",
        "function",
        "functions",
        "method",
        "wrapper",
        "operation",
        "command",
        "mcp",
        "server",
        "return",
        "returns",
        "returning",
        "get",
        "gets",
        "give",
        "gives",
        "given",
        "result",
        "results",
        "response",
        "output",
        "outputs",
        "value",
        "values",
        "data",
        "object",
        "objects",
        "instance",
        "model",
        "models",
        "type",
        "types",
        "typed",
        "pydantic",
        "parse",
        "parses",
        "parsed",
        "parsing",
        "structured",
        "structure",
        "unstructured",
        "raw",
        "json",
        "dict",
        "validated",
        "param",
        "params",
        "parameter",
        "parameters",
        "arg",
        "args",
        "argument",
        "arguments",
        "input",
        "inputs",
        "run",
        "parsed",
        "a",
        "an",
        "and",
        "as",
        "from",
        "in",
        "into",
        "it",
        "its",
        "of",
        "on",
        "or",
        "the",
        "then",
        "this",
        "to",
        "with",
        "using",
        "via",
        "by",
        "for",
        "if",
    ]
)

_MAX_SUMMARY = 1_000
_MAX_UNPARSED = 100_000
_QUOTED = re.compile(r"(\"\"\"|''')(.*?)(?:\1|\Z)", re.DOTALL)
_SENTENCE = re.compile(r".+?(?:[.!?](?=\s+[^\sa-z])|[。！？])", re.DOTALL)
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|No)|\b[A-Z])\.\Z")
_SECTION = re.compile(
    r"^[ \t]*(?:\*\*|__|)(?:args|arguments|params|parameters|keyword args|keyword arguments|"
    r"other parameters|returns?|yields?|raises|examples?|notes?|attributes|tags|use[ -]cases?)"
    r"[ \t]*(?:\*\*|__|)[ \t]*:(?:\*\*|__|)[ \t]*$"
    r"|^[ \t]*[:@](?:param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises)\b"
    r"|^[^\n]+\n[ \t]*-{3,}[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Docstring:
    """A docstring, read by the rules for the docstrings of tool modules.

    Attributes:
        text: Its text, with the indentation removed as by `inspect.getdoc`.
    """

    text: str

    @property
    def summary(self) -> str:
        """Its first sentence, on one line."""
        return summary_of(self.text)

    @property
    def parameters(self) -> Mapping[str, str]:
        """The description of each parameter that has one, by name."""
        return parameter_descriptions(self.text)

    @property
    def tags(self) -> tuple[str, ...]:
        """The items of its `Tags:` section."""
        return listed(self.text, "Tags")

    @property
    def use_cases(self) -> tuple[str, ...]:
        """The items of its `Use cases:` section."""
        return listed(self.text, "Use[ -][Cc]ases")


def is_generic(text: str, tool: ToolId) -> bool:
    """Return whether a docstring says nothing specific about its tool.

    That is so if its first paragraph consists of words about calling a tool and getting its result,
    and of words in the tool's id: "Run tool and return parsed structured data." fits every tool.
    """
    words = set(split_identifier(_first_paragraph(text)))
    known = {*split_identifier(tool.name), *split_identifier(tool.category)}
    return words <= _CALLING | known


def combine(parsed: str, run: str) -> str:
    """Join the docstrings of `run_parsed` and `run` into one description.

    That of `run_parsed` comes first, followed by that of `run` if they differ.
    """
    if not parsed or not run or run in parsed:
        return parsed or run
    return run if parsed in run else f"{parsed}\n\n{run}"


def summary_of_both(parsed: str, run: str, tool: ToolId) -> str:
    """Return the first sentence of `run_parsed`'s docstring, or of `run`'s if it is generic."""
    if not parsed or not run:
        return summary_of(parsed or run)
    is_hiding = is_generic(parsed, tool) and not is_generic(run, tool)
    return summary_of(run if is_hiding else parsed)


def summary_of(description: str) -> str:
    """Return the first sentence of a description, on one line."""
    paragraph = _first_paragraph(description)
    if len(paragraph) > _MAX_SUMMARY:
        paragraph = f"{paragraph[: _MAX_SUMMARY - 1]}…"
    end = 0
    while found := _SENTENCE.match(paragraph, end):
        end = found.end()
        if not _ABBREVIATION.search(paragraph[:end]):
            return paragraph[:end]
    return paragraph


def _first_paragraph(text: str) -> str:
    section = _SECTION.search(text)
    head = text[: section.start()] if section and section.start() else text
    return " ".join(re.split(r"\n[ \t]*\n", head.strip(), maxsplit=1)[0].split())


def readable_docstrings(data: bytes) -> str:
    """Return the beginning of the docstrings in a file that cannot be parsed."""
    text = data[:_MAX_UNPARSED].decode("utf-8", "replace")
    return "\n".join(found[2] for found in _QUOTED.finditer(text))[:_MAX_SUMMARY]


def listed(text: str, title: str) -> tuple[str, ...]:
    """Return the items of a section such as `Tags:`: lines, bullets, or separated by commas.

    The title is capitalised and not indented; otherwise it would be a parameter of that name.
    """
    found = re.search(rf"^{title}[ \t]*:[ \t]*(.*)$", text, re.MULTILINE)
    if found is None:
        return ()
    items = (item.strip() for item in _items(found[1], text[found.end() + 1 :].split("\n")))
    return tuple(dict.fromkeys(item for item in items if item))


def _items(beside: str, below: list[str]) -> list[str]:
    """Return a section's items, from the text after its title and the lines below it."""
    items = beside.split(",") if beside.strip() else []
    is_bulleted = False
    for line in below:
        if not line.strip():
            if items:
                break
        elif mark := re.match(r"[ \t]*[-*+•][ \t]+", line):
            items.append(line[mark.end() :])
            is_bulleted = True
        elif not line[0].isspace():
            break
        elif is_bulleted:
            items[-1] += f" {line.strip()}"
        else:
            items.extend(line.split(","))
    return items
