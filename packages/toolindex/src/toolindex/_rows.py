"""Converting tool records to rows and back.

Words of languages written without spaces become overlapping bigrams, because FTS5 treats a whole
run of such letters as one word, of which no part would be found. Bigrams need no dictionary, and
find words in Chinese and Japanese about as well as a dictionary does (Nie, Gao, Zhang & Zhou 2000,
"On the use of words and n-grams for Chinese information retrieval").
"""

from __future__ import annotations

import json
import re
import time
import unicodedata
from dataclasses import dataclass, fields
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from toolscan import Parameter, ToolId, ToolScanError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from toolscan import ToolRecord

Stamp = tuple[int, int, int, int]
"""Size, modification time, change time and inode, as in toolscan's records."""

# Letters and their marks; digits and punctuation end a run. Hangul is included because its
# particles are attached to the preceding word.
_SCRIPTS = (
    # Han and kana, which Japanese mixes within words.
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303c\u3041-\u3096\u3099\u309a\u309d-\u309f"
    "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff",
    # Hangul
    "\u1100-\u11ff\ua960-\ua97c\uac00-\ud7a3\ud7b0-\ud7fb",
    # Thai
    "\u0e01-\u0e3a\u0e40-\u0e4e",
    # Lao
    "\u0e81-\u0ece\u0edc-\u0edf",
    # Khmer
    "\u1780-\u17d3\u17d7\u17dc\u17dd",
    # Myanmar
    "\u1000-\u103f\u1050-\u108f\u109a-\u109d\ua9e0-\ua9ef\ua9fa-\ua9fe\uaa60-\uaa76\uaa7a-\uaa7f",
)
# Compiled and cached by re with the first text, because a search needs none.
_RUN = "|".join(f"[{script}]+" for script in _SCRIPTS)
_UNSPACED = f"[{''.join(_SCRIPTS)}]"
_WORD = re.compile(r"[^\W_]+")
_PARAMETER_FIELDS = tuple(field.name for field in fields(Parameter))
_parameter_values = attrgetter(*_PARAMETER_FIELDS)

_WRAP = 1 << 64
ENTRY_COLUMNS = "id, path, signature, summary, description, parameters, tags, aliases"


class UnreadableRowError(Exception):
    """A row has an invalid value; the index raises `DamagedDatabaseError` from it."""

    def __init__(self, column: str) -> None:
        super().__init__(f"its field {column!r} is invalid")


def segments(texts: Iterable[str]) -> str:
    """Return the bigrams of text written without spaces, in order, without other text.

    >>> segments(["メールを送信する", "send a mail"])
    'メー ール ルを を送 送信 信す する'
    """
    return " ".join(bigram for text in texts if not text.isascii() for bigram in _bigrams(text))


def _plain_words(text: str) -> str:
    """Return the words of a text with compatibility characters, such as CO₂, in their plain form.

    FTS5 does not convert such characters, and descriptions are stored unchanged.
    """
    if text.isascii() or unicodedata.is_normalized("NFKC", text):
        return ""
    # A symbol, such as ㎏, is no word as it is written.
    words = set(_WORD.findall(unicodedata.normalize("NFC", text)))
    plain = _WORD.findall(unicodedata.normalize("NFKC", text))
    return " ".join(word for word in plain if word not in words)


def _bigrams(text: str) -> Iterator[str]:
    text = unicodedata.normalize("NFKC", text)
    # Most text with a dash or an accent has no such runs, and finding them is slow.
    if not re.search(_UNSPACED, text):
        return
    for run in re.finditer(_RUN, text):
        # FTS5 ends a word at a vowel sign or a tone mark.
        letters = "".join(filter(str.isalnum, run[0]))
        if len(letters) == 1:
            yield letters
        for start in range(len(letters) - 1):
            yield letters[start : start + 2]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolEntry:
    """A tool in the index.

    Attributes:
        id: Its id.
        path: Its file, posix, relative to the root.
        signature: The entry point's signature on one line.
        summary: The first sentence or paragraph of the description.
        description: The full docstring.
        parameters: The entry point's parameters.
        tags: The tags that the module declares.
        aliases: Other words for it, which are not in its file.
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
        "parameters": json.dumps(list(map(_as_dict, record.parameters)), ensure_ascii=False),
        "tags": json.dumps(record.tags, ensure_ascii=False),
        "name_words": _name_words(name),
        "category_words": _name_words(category),
        "parameter_words": _parameter_words(record.parameters),
        "tag_words": _words(record.tags),
        "segments": " ".join(
            filter(
                None,
                (
                    segments([name, record.description, *parameters, category, *record.tags]),
                    _plain_words(record.description),
                ),
            )
        ),
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


def stamp_columns(stamp: Stamp | None) -> tuple[int | None, int | None, int | None, int | None]:
    """Return the values of `size`, `mtime_ns`, `ctime_ns` and `inode`."""
    size, mtime_ns, ctime_ns, inode = stamp or (0, 0, 0, _WRAP)
    if inode >= _WRAP:
        return None, None, None, None
    # SQLite's integers are signed.
    return size, mtime_ns, ctime_ns, inode - _WRAP if inode >= _WRAP // 2 else inode


def to_stamp(
    size: int | None, mtime_ns: int | None, ctime_ns: int | None, inode: int | None
) -> Stamp | None:
    if size is None or mtime_ns is None or ctime_ns is None or inode is None:
        return None
    return size, mtime_ns, ctime_ns, inode if inode >= 0 else inode + _WRAP


def _as_dict(parameter: Parameter) -> dict[str, Any]:
    # asdict would copy each value, a tenth of the time for a record.
    return dict(zip(_PARAMETER_FIELDS, _parameter_values(parameter), strict=True))


def name_key(text: str) -> str:
    """Reduce a name to its letters and digits in lower case, to compare it with others.

    >>> name_key("create_pull-request"), name_key("createPullRequest")
    ('createpullrequest', 'createpullrequest')
    """
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).lower()))


def text_of(row: Sequence[Any]) -> str:
    """Return the text to embed, from an id, a description, parameters and tags.

    Raises:
        UnreadableRowError: A value is invalid.
    """
    id_, description, parameters, tags = row
    names = [it.alias or it.name for it in _parameters(parameters)]
    return _id(id_).embedding_text(
        _text("description", description), names, tags=_texts("tags", tags)
    )


def to_entry(row: Sequence[Any]) -> ToolEntry:
    """Make an entry from a row of `ENTRY_COLUMNS`.

    Raises:
        UnreadableRowError: A value is invalid.
    """
    id_, path, signature, summary, description, parameters, tags, aliases = row
    return ToolEntry(
        id=_id(id_),
        path=_text("path", path),
        signature=_text("signature", signature),
        summary=_text("summary", summary),
        description=_text("description", description),
        parameters=_parameters(parameters),
        tags=_texts("tags", tags),
        aliases=_texts("aliases", aliases),
    )


def _id(value: object) -> ToolId:
    try:
        return ToolId.parse(_text("id", value))
    except ToolScanError as error:
        raise UnreadableRowError("id") from error


def _text(column: str, value: object) -> str:
    if not isinstance(value, str):
        raise UnreadableRowError(column)
    return value


def _texts(column: str, value: object) -> tuple[str, ...]:
    return tuple(_text(column, it) for it in _list(column, value))


def _parameters(value: object) -> tuple[Parameter, ...]:
    try:
        found = tuple(Parameter(**fields) for fields in _list("parameters", value))
    except TypeError as error:
        raise UnreadableRowError("parameters") from error
    for it in found:
        name, annotation, required, default, description, alias = _parameter_values(it)
        texts = (name, annotation, description, default or "", alias or "")
        if not (isinstance(required, bool) and all(isinstance(text, str) for text in texts)):
            raise UnreadableRowError("parameters")
    return found


def _list(column: str, value: object) -> list[Any]:
    try:
        found: Any = json.loads(_text(column, value))
    except (ValueError, RecursionError) as error:
        raise UnreadableRowError(column) from error
    if not _is_list(found):
        raise UnreadableRowError(column)
    return found


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def alias_words(texts: Sequence[str]) -> str:
    """Return the value of `alias_words` for a tool: every word, followed by its parts."""
    plain = (unicodedata.normalize("NFKC", text) for text in texts)
    words = (word for text in plain for word in _WORD.findall(text))
    # Repeated words count more than single ones: measured in decision 13.
    return f"{' '.join(_name_words(word) for word in words)} {segments(texts)}".strip()


def _words(names: Iterable[str]) -> str:
    """Return each word of the names whole and split: `s3_upload` as "s3 s 3 upload"."""
    words: dict[str, None] = {}
    for name in names:
        for word in _WORD.findall(unicodedata.normalize("NFKC", name)):
            words[word.lower()] = None
            words.update(dict.fromkeys(ToolId.words_of(word)))
    return " ".join(words)


# A tree has few words for its categories and parameters.
@lru_cache(1 << 12)
def _name_words(name: str) -> str:
    return _words([name])


def _parameter_words(parameters: Sequence[Parameter]) -> str:
    return " ".join(
        text
        for p in parameters
        for text in (
            _name_words(p.alias or p.name),
            unicodedata.normalize("NFKC", p.description),
        )
        if text
    )
