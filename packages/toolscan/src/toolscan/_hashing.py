"""The text that is embedded for a tool, and the two hashes that show whether anything changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolscan._identifiers import split_identifier

if TYPE_CHECKING:
    from collections.abc import Iterable

    from toolscan._layout import ToolId

TEXT_VERSION = 2
"""Version of the template of `embedding_text`; a new one makes every stored text hash differ."""


def embedding_text(
    id: ToolId,  # noqa: A002
    description: str,
    parameter_names: Iterable[str],
    *,
    tags: Iterable[str] = (),
) -> str:
    """Return the text that is embedded for a tool.

    A pure function of what an index stores, so that an embedding can be made later without the
    file. Tags that the description mentions are not repeated. Parameters come last, by their names
    alone: a model that truncates long texts, or weights beginnings more, then loses the least.
    """
    name, category = _words(id.name), _words(id.category)
    said = description.casefold()
    labels = ", ".join(tag for tag in tags if tag.casefold() not in said)
    parameters = ", ".join(map(_words, parameter_names))
    return " ".join(filter(None, (f"{name} ({category}): {description}", labels, parameters)))


def _words(identifier: str) -> str:
    return " ".join(split_identifier(identifier)) or identifier


def hash_bytes(data: bytes) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    # With OpenSSL, which takes a tenth of our import.
    from hashlib import sha256

    return sha256(data).hexdigest()


def hash_text(text: str) -> str:
    """Return the SHA-256 of an embedded text together with the template's version.

    Each part is preceded by its length, so that no two different pairs hash the same bytes.
    """
    from hashlib import sha256

    parts = (str(TEXT_VERSION).encode(), text.encode())
    return sha256(b"".join(b"%d:%b" % (len(part), part) for part in parts)).hexdigest()
