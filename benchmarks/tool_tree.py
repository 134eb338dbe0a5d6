"""Generate a tree of tools whose texts vary like those of real ones.

It is calibrated on trees generated from public MCP servers: 25 tools per server, four parameters
and 35 words of description per tool, 1 kB per file; some words in every fifth tool, most in a few,
and a vocabulary that grows with the tree. The same arguments produce the same tree.
"""

from __future__ import annotations

import random
import time
from bisect import bisect
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from toolscan import Parameter, ToolId, ToolRecord
from toolscan._extract import hash_text
from toolscan._source import hash_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["queries", "records", "reword", "write_tree"]

_TOOLS_PER_SERVER = 25
_SETTLE_SECONDS = 2.1
# Blocks of words are easier to read than lists of strings.
_VERBS = """
    get list create update delete search add send fetch set read remove export import upload
    download generate convert archive restore merge publish schedule validate cancel approve
    assign share compare summarize translate extract resize rename subscribe refund deploy
    monitor rotate transcribe
""".split()  # noqa: SIM905
_NOUNS = """
    file user message page issue event project task document report image account order
    customer invoice payment record table branch repository comment ticket contact calendar
    meeting channel folder email label query database workflow template product subscription
    notification webhook campaign review article video playlist track map route location
    weather flight hotel booking price stock portfolio currency transaction ledger contract
    policy claim patient appointment prescription course student grade recipe ingredient
    workout sensor device firmware cluster container volume snapshot backup certificate secret
    permission role session token alert metric trace log dashboard chart dataset model
    experiment survey form answer translation glossary shipment warehouse vehicle driver
    property tenant lease candidate vacancy payslip
""".split()  # noqa: SIM905
_ADJECTIVES = """
    new specific recent single shared public private archived draft pending overdue scheduled
    monthly weekly internal external default custom related nested duplicate encrypted verified
    regional temporary approved open closed linked unread
""".split()  # noqa: SIM905
_FIELDS = """
    name title status owner limit date start end format language country size type priority
    description content url path color amount unit category tags cursor order parent version
    timeout region email
""".split()  # noqa: SIM905
_SYLLABLES = "ba co di fa gri hel jo ka lum mer no pra qui ro sta tev ul vox wi zen".split()  # noqa: SIM905
_ASIDES = (
    "Use this when the {noun} is already known by its identifier.",
    "Returns the {adjective} {noun} together with its {field} and the {other} it belongs to.",
    "Only what the caller is allowed to see is returned, {count} at most on one page.",
    "The {noun} must exist, otherwise an error that names the {other} is raised.",
    "Works for every {other} of {server} unless the {field} of the {noun} is {adjective}.",
    "To change the {field} of a {noun}, call the tool that updates it instead.",
    "Results come in the order of their {field}, the most {adjective} first.",
    "In {server} this is called a {coined}; see also {other} and {field}.",
)
_PARAMETER = '''    {name}: {type}
    """
    {text}
    """
'''
_MODULE = '''from __future__ import annotations

from typing import Any, Dict, List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
{parameters}

class Item(BaseModel):
    id: str
    labels: Optional[List[str]] = None


class Result(BaseModel):
    items: Optional[List[Item]] = None
    details: Optional[Dict[str, Any]] = None


from . import CLIENT

def run(params: Params) -> Result:
    """{description}"""
    return CLIENT.run_sync(tool_name="{name}", tool_args=params.model_dump())
'''
_REQUESTS = (
    "{verb} the {adjective} {noun} of a {other} by its {field}",
    "I need to {verb} a {noun} in {server}, please show me its {field}",
    "how can I {verb} every {adjective} {noun} that belongs to my {other}?",
    "{verb} {noun} {field}",
    "find a tool that can {verb} a {noun} and then {verb} the {other} with the right {field}",
)


class _Words:
    """Draws words with a Zipf distribution: the first of each list most often."""

    def __init__(self, seed: object, servers: int) -> None:
        self._random = random.Random(str(seed))
        self._servers = servers
        self._weights = {
            id(words): list(accumulate(1 / (rank + 2) for rank in range(len(words))))
            for words in (_VERBS, _NOUNS, _ADJECTIVES, _FIELDS)
        }

    def pick(self, words: Sequence[str]) -> str:
        # As random.choices() does, in half the time.
        weights = self._weights[id(words)]
        return words[bisect(weights, self._random.random() * weights[-1], 0, len(words) - 1)]

    def fill(self, patterns: tuple[str, ...], count: int, **words: str) -> list[str]:
        return [
            pattern.format(
                **{
                    "adjective": self.pick(_ADJECTIVES),
                    "other": self.pick(_NOUNS),
                    "field": self.pick(_FIELDS),
                    "count": self._random.choice((10, 20, 50, 100)),
                    "coined": _coined(self._random.randrange(40 * self._servers)),
                    **words,
                }
            )
            for pattern in self._random.sample(patterns, count)
        ]

    def subject(self) -> dict[str, str]:
        server = _coined(self._random.randrange(self._servers))
        return {"verb": self.pick(_VERBS), "noun": self.pick(_NOUNS), "server": server}

    def upto(self, least: int, most: int) -> int:
        return self._random.randint(least, most)


def write_tree(root: Path, tools: int) -> list[str]:
    """Write a number of tools, and return their paths relative to the root."""
    paths: list[str] = []
    for server, name, description, parameters in _tools(tools):
        folder = root / "mcptools" / server
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / "__init__.py").write_text("CLIENT = None\n", encoding="utf-8")
        text = _module(name, description, parameters)
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
        paths.append(f"mcptools/{server}/{name}.py")
    # Wait until an edit is sure to change the files' times, because newer records have no stamps.
    time.sleep(_SETTLE_SECONDS)
    return paths


def records(tools: int) -> Iterator[ToolRecord]:
    """Return the records of such a tree without writing files, and so without stamps."""
    signature = "def run(params: Params) -> Result"
    for server, name, written, texts in _tools(tools):
        id_ = ToolId(source="mcptools", category=server, name=name)
        description = "\n".join(line.strip() for line in written.split("\n")).strip()
        parameters = tuple(
            Parameter(
                name=field,
                annotation="Optional[str]" if position else "str",
                required=not position,
                default="None" if position else None,
                description=text,
            )
            for position, (field, text) in enumerate(texts.items())
        )
        module = _module(name, written, texts)
        body = module.partition("\ndef run")[0]
        yield ToolRecord(
            id=id_,
            path=f"mcptools/{server}/{name}.py",
            entrypoint="run",
            signature=signature,
            summary=description.partition("\n")[0],
            description=description,
            parameters=parameters,
            returns="Result",
            is_async=False,
            file_hash=hash_bytes(module.encode()),
            text_hash=hash_text(id_.embedding_text(description, texts)),
            stamp=None,
            params_class="Params",
            definitions="\n".join(filter(None, [*body.split("\n"), f"{signature}: ..."])),
        )


def reword(file: Path, word: str) -> None:
    """Add a word to a tool's description."""
    text = file.read_text("utf-8")
    head, mark, rest = text.partition('-> Result:\n    """')
    file.write_text(f"{head}{mark}{word}: {rest}", encoding="utf-8")


def queries(count: int, tools: int) -> list[str]:
    """Return requests in plain language for tools of a tree of that size."""
    words = _Words("queries", _servers(tools))
    return [words.fill(_REQUESTS, 1, **words.subject())[0] for _ in range(count)]


def _tools(tools: int) -> Iterator[tuple[str, str, str, dict[str, str]]]:
    """Yield the server, the name, the description and the parameters of each tool."""
    words = _Words("tree", _servers(tools))
    for number in range(tools):
        server = _coined(number // _TOOLS_PER_SERVER)
        subject = words.subject() | {"server": server}
        name = f"{subject['verb']}_{subject['noun']}_{number % _TOOLS_PER_SERVER}"
        title = f"{subject['verb'].title()} the {{adjective}} {subject['noun']} of a {{other}}."
        description = words.fill((title,), 1)[0]
        if asides := words.fill(_ASIDES, words.upto(0, 4), **subject):
            description += "\n\n    " + "\n    ".join(asides) + "\n    "
        fields = dict.fromkeys(words.pick(_FIELDS) for _ in range(words.upto(1, 7)))
        yield (
            server,
            name,
            description,
            {
                field: words.fill(("The {field} of the {noun}.",), 1, field=field, **subject)[0]
                for field in fields
            },
        )


def _module(name: str, description: str, texts: dict[str, str]) -> str:
    parameters = "".join(
        _PARAMETER.format(
            name=field, type="str" if position == 0 else "Optional[str] = None", text=text
        )
        for position, (field, text) in enumerate(texts.items())
    )
    return _MODULE.format(name=name, description=description, parameters=parameters)


def _servers(tools: int) -> int:
    return -(-tools // _TOOLS_PER_SERVER)


def _coined(number: int) -> str:
    """Return an invented word, a different one for each number."""
    word = ""
    while True:
        number, position = divmod(number, len(_SYLLABLES))
        word += _SYLLABLES[position]
        if number == 0 and len(word) > len(_SYLLABLES[position]):
            return word
