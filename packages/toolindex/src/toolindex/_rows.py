"""Tool records to rows and back."""

from __future__ import annotations

import json
import re
import time
import unicodedata
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from toolscan import Parameter, ToolId, split_identifier

from toolindex._segments import segments
from toolindex._stored import stamp_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from toolscan import ToolRecord

FTS_COLUMNS = (
    *("name_words", "description", "parameter_words", "category_words", "tag_words"),
    *("segments", "alias_words"),
)
"""The searched columns of `entries_fts`, in the table's order: a ranker's weights follow it."""

_WORD = re.compile(r"[^\W_]+")

ENTRY_COLUMNS = "id, path, signature, summary, description, parameters, tags, aliases"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """One tool as the index knows it.

    Attributes:
        id: Its id.
        path: Its file, posix, relative to the root.
        signature: The entry point's signature on one line.
        summary: The first sentence or paragraph of the description.
        description: The full docstring.
        parameters: The entry point's parameters.
        tags: What the module declares.
        aliases: What else it is asked for as, which no file of a tool says.
    """

    id: ToolId
    path: str
    signature: str
    summary: str
    description: str
    parameters: tuple[Parameter, ...]
    tags: tuple[str, ...]
    aliases: tuple[str, ...] = ()


def row_values(record: ToolRecord) -> dict[str, Any]:
    """Return a record's values by column of `entries`."""
    size, mtime_ns, ctime_ns, inode = stamp_columns(record.stamp)
    category, name = record.id.category, record.id.name
    parameters = (text for p in record.parameters for text in (p.alias or p.name, p.description))
    return {
        "id": str(record.id),
        "source": record.id.source,
        "category": category,
        "name": name,
        "path": record.path,
        "signature": record.signature,
        "summary": record.summary,
        "description": record.description,
        "parameters": json.dumps([asdict(p) for p in record.parameters], ensure_ascii=False),
        "tags": json.dumps(record.tags, ensure_ascii=False),
        "name_words": _words([name]),
        "category_words": _words([category]),
        "parameter_words": _parameter_words(record.parameters),
        "tag_words": _words(record.tags),
        "segments": segments([name, record.description, *parameters, category, *record.tags]),
        "name_key": name_key(name),
        "qualified_key": name_key(category + name),
        "file_hash": record.file_hash,
        "text_hash": record.text_hash,
        "indexed_at": time.time(),
        "size": size,
        "mtime_ns": mtime_ns,
        "ctime_ns": ctime_ns,
        "inode": inode,
    }


def name_key(text: str) -> str:
    """Reduce a name to the letters and digits of it, in lower case, to compare it with others.

    >>> name_key("create_pull-request"), name_key("createPullRequest")
    ('createpullrequest', 'createpullrequest')
    """
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).lower()))


def parameter_names(text: str) -> list[str]:
    """Return the names, as a caller writes them, of the parameters that `row_values` wrote."""
    return [str(fields["alias"] or fields["name"]) for fields in json.loads(text)]


def to_entry(row: Sequence[Any]) -> ToolEntry:
    """Make an entry from a row of `ENTRY_COLUMNS`."""
    id_, path, signature, summary, description, parameters, tags, aliases = row
    return ToolEntry(
        id=ToolId.parse(id_),
        path=path,
        signature=signature,
        summary=summary,
        description=description,
        parameters=tuple(Parameter(**fields) for fields in json.loads(parameters)),
        tags=tuple(json.loads(tags)),
        aliases=tuple(json.loads(aliases)),
    )


def alias_words(texts: Sequence[str]) -> str:
    """Return the value of `alias_words` for a tool: every word, followed by its parts."""
    words = (word for text in texts for word in _WORD.findall(text))
    # What is said again and again counts more than what is said once: measured, decision 13.
    return f"{' '.join(_words([word]) for word in words)} {segments(texts)}".strip()


def _words(names: Iterable[str]) -> str:
    """Return each word of the names whole and split: `s3_upload` as "s3 s 3 upload"."""
    words: dict[str, None] = {}
    for name in names:
        for word in _WORD.findall(name):
            words[word.lower()] = None
            words.update(dict.fromkeys(split_identifier(word)))
    return " ".join(words)


def _parameter_words(parameters: Sequence[Parameter]) -> str:
    return " ".join(
        text for p in parameters for text in (_words([p.alias or p.name]), p.description) if text
    )
