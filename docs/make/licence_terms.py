"""Read a distribution's licence from its metadata, and check that it is compatible with ours.

Metadata states it in up to three ways, from the best to the worst: an SPDX expression, a line of
free text, and classifiers. Where none of them is clear, a manual decision is listed here for
exactly this statement, so that any other statement has to be reviewed.
"""

# license_expression has no usable types.
# pyright: basic, reportArgumentType=false, reportTypedDictNotRequiredAccess=false
from __future__ import annotations

from typing import TYPE_CHECKING

from license_expression import AND, OR, Licensing
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

if TYPE_CHECKING:
    from license_expression import LicenseExpression
    from packaging.metadata import RawMetadata

NVIDIA = "LicenseRef-NVIDIA-Proprietary"
# A BSD licence with an unknown number of clauses; all except the one with four are acceptable.
BSD = "LicenseRef-BSD"
PERMISSIVE = frozenset({
    "0BSD", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause",
    "BSL-1.0", "CC0-1.0", "CNRI-Python", "ISC", "MIT", "MIT-0", "MIT-CMU", "PSF-2.0", "Zlib",
    "any-OSI", BSD,
})  # fmt: skip
# Requires that users can replace the library with another version. A separate wheel that Python
# imports can be replaced; only an extra installs it.
LIBRARY = frozenset({"LGPL-3.0-only"})
# Requires the source of its own files if they are distributed changed, but nothing of ours.
BY_FILE = frozenset({"MPL-2.0"})
_CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: BSD License": BSD,
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "License :: OSI Approved :: Python Software Foundation License": "PSF-2.0",
}
# First lines of licence texts that identify them.
_TEXTS = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "MIT License": "MIT",
    "MIT License, Apache License, Version 2.0": "MIT OR Apache-2.0",
    "NVIDIA Proprietary Software": NVIDIA,
}
# Distributions whose metadata is unclear, by name.
_BY_HAND = {
    # It is empty, and only requires NVIDIA's other packages in matching versions.
    "cuda-toolkit": NVIDIA,
}
_LICENSING = Licensing()


class LicenceError(Exception):
    """A dependency's licence is incompatible, or unknown."""


def licence(metadata: RawMetadata) -> str:
    """Return the licence that metadata states, as an SPDX expression.

    Raises:
        LicenceError: It states none, or none that is known here.
    """
    text = (metadata.get("license") or "").strip()
    first_line = text.partition("\n")[0].strip()
    classified = [it for it in metadata.get("classifiers", []) if it.startswith("License :: ")]
    # A classifier of another licence contradicts the text; an expression overrides both.
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
    """Refuse a dependency whose licence is incompatible with Apache-2.0.

    Args:
        name: The distribution.
        expression: Its licence, in SPDX.
        always: Whether it is always installed, and not only with an extra.

    Raises:
        LicenceError: The licence is not permitted.
    """
    permitted = PERMISSIVE | BY_FILE | (frozenset() if always else {NVIDIA, *LIBRARY})
    if not _is_permitted(_LICENSING.parse(expression), permitted):
        raise LicenceError(
            f"{name} is under {expression}, which docs/make/licence_terms.py does not permit"
            f" {'for everybody' if always else 'for an extra'}: do without the package"
        )


def is_by_file(expression: str) -> bool:
    """Return whether every alternative of a licence has terms for single files."""
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
