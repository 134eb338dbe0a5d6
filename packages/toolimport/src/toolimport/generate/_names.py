"""Names of folders and modules for servers and tools with any names."""

from __future__ import annotations

import keyword
import re
import unicodedata
from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

_LONGEST = 100
# Reserved file names on Windows.
_TAKEN = re.compile(r"con|prn|aux|nul|com\d|lpt\d")


def module_name(name: str) -> str:
    """Return a name that can be imported, and that no scan treats as private.

    As in mcpygen, it is in lower case, with `_` for invalid characters. A name that Python could
    still not import gets a prefix or a trailing underscore.
    """
    composed = unicodedata.normalize("NFKC", name).lower()
    # Compose again, because lower-casing may decompose some letters.
    composed = unicodedata.normalize("NFKC", composed)
    made = "".join(char if f"a{char}".isidentifier() else "_" for char in composed).lstrip("_")
    if len(made.encode("utf-8", "replace")) > _LONGEST:
        digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        made = f"{_cut(made, _LONGEST - 9).rstrip('_')}_{digest}"
    if not made.isidentifier():
        made = f"tool_{made}" if made else "tool"
    if keyword.iskeyword(made) or _TAKEN.fullmatch(made):
        made += "_"
    return made


def distinct_names(
    names: Collection[str], known: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Assign each name a unique module name, independent of their order.

    If several names collide, the one that is spelled like its module keeps the name, otherwise the
    first alphabetically; the others are numbered. Earlier assignments, `known`, are kept.
    """
    wanted = {name: module_name(name) for name in names}
    ordered = sorted(wanted, key=lambda name: (name != wanted[name], name))
    taken = set(wanted.values())
    given = {
        name: made
        for name, made in (known or {}).items()
        if name in wanted and re.fullmatch(rf"{re.escape(wanted[name])}(_\d+)?", made)
    }
    used = set(given.values())
    for name in ordered:
        if name in given:
            continue
        made, number = wanted[name], 1
        while made in used or (number > 1 and made in taken):
            number += 1
            made = f"{wanted[name]}_{number}"
        used.add(made)
        given[name] = made
    return {name: given[name] for name in names}


def _cut(text: str, length: int) -> str:
    return text.encode()[:length].decode(errors="ignore")
