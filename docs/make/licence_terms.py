"""What a distribution's metadata says of its licence, and whether that goes with ours.

Metadata says it in three ways, from the best to the worst: an SPDX expression, a line of free text,
and classifiers. What none of them says clearly is decided by hand here, for exactly these words, so
that other words are looked at anew.
"""

# What license_expression returns has no types that fit.
# pyright: basic, reportArgumentType=false, reportTypedDictNotRequiredAccess=false
from __future__ import annotations

from typing import TYPE_CHECKING

from license_expression import AND, OR, Licensing
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

if TYPE_CHECKING:
    from license_expression import LicenseExpression
    from packaging.metadata import RawMetadata

NVIDIA = "LicenseRef-NVIDIA-Proprietary"
# A BSD licence of which it is not said how many clauses it has; each but that with four would do.
BSD = "LicenseRef-BSD"
PERMISSIVE = frozenset({
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause",
    "BSL-1.0", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "Zlib",
    "any-OSI", BSD,
})  # fmt: skip
# Asks that whoever passes the library on lets its users put another version in its place. A wheel
# of its own, which Python imports, can be replaced; only an extra brings it.
LIBRARY = frozenset({"LGPL-3.0-only"})
# Asks for the source of its own files where these are passed on changed, and for nothing of ours.
BY_FILE = frozenset({"MPL-2.0"})
_CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": BSD,
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
}
# First lines of texts that say all.
_TEXTS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "MIT License": "MIT",
    "MIT License, Apache License, Version 2.0": "MIT OR Apache-2.0",
    "NVIDIA Proprietary Software": NVIDIA,
}
# What says nothing itself, by its name.
_BY_HAND = {
    # Holds nothing; it names the versions of others of NVIDIA that go together.
    "cuda-toolkit": NVIDIA,
}
_LICENSING = Licensing()


class LicenceError(Exception):
    """A dependency that we cannot have, or of which it is not known whether we can."""


def licence(metadata: RawMetadata) -> str:
    """Return the licence that metadata states, as an SPDX expression.

    Raises:
        LicenceError: Nothing is stated, or in words that are not known here.
    """
    text = (metadata.get("license") or "").strip()
    first_line = text.partition("\n")[0].strip()
    classified = [it for it in metadata.get("classifiers", []) if it.startswith("License :: ")]
    # A classifier of another licence takes back what the text says; an expression is binding.
    are_known = all(it in _CLASSIFIERS for it in classified)
    texts = (text, _TEXTS.get(first_line)) if are_known else ()
    for stated in (metadata.get("license_expression"), *texts):
        if stated and (expression := _as_spdx(stated)):
            return expression
    if classified and are_known:
        return " AND ".join(sorted({_CLASSIFIERS[it] for it in classified}))
    name = metadata["name"]
    found = ", ".join(filter(None, (first_line, *classified))) or "nothing"
    if not text and not classified and name in _BY_HAND:
        return _BY_HAND[name]
    raise LicenceError(
        f"{name} {metadata['version']} states no licence that is known here"
        f" ({found}): read what it comes with, and add it to"
        " docs/make/licence_terms.py, or do without the package"
    )


def check(name: str, expression: str, *, always: bool) -> None:
    """Refuse a dependency whose licence does not go with Apache-2.0.

    Args:
        name: The distribution.
        expression: Its licence, in SPDX.
        always: Whether everybody gets it, and not only who asks for an extra.

    Raises:
        LicenceError: The licence is none of those that are permitted.
    """
    permitted = PERMISSIVE | BY_FILE | (frozenset() if always else {NVIDIA, *LIBRARY})
    if not _is_permitted(_LICENSING.parse(expression), permitted):
        raise LicenceError(
            f"{name} is under {expression}, which docs/make/licence_terms.py does not permit"
            f" {'for everybody' if always else 'for an extra'}: do without the package"
        )


def is_by_file(expression: str) -> bool:
    """Return whether a licence binds some of the files that it is for, whatever is chosen."""
    return not _is_permitted(_LICENSING.parse(expression), PERMISSIVE | LIBRARY | {NVIDIA})


def _as_spdx(text: str) -> str | None:
    try:
        return canonicalize_license_expression(text)
    except InvalidLicenseExpression:
        return None


def _is_permitted(expression: LicenseExpression, permitted: frozenset[str]) -> bool:
    if isinstance(expression, AND):
        return all(_is_permitted(it, permitted) for it in expression.args)
    if isinstance(expression, OR):
        return any(_is_permitted(it, permitted) for it in expression.args)
    return str(expression) in permitted
