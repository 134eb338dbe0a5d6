"""The description of a category, from its `__init__.py`."""

from __future__ import annotations

import re

from toolscan._source import decode, parse, refuse_surrogates
from toolscan._syntax import docstring

_STARTS_WITH_STRING = r"""(?:\s|#[^\n]*\n|\\\n|[(;])*[rRuU]?["']"""


def category_description(data: bytes) -> str:
    """Return the docstring of a category's `__init__.py`; "" if it has none.

    Raises:
        Rejection: The file starts with a docstring, but cannot be parsed or stored.
    """
    if not data or data.isspace():
        return ""
    text = decode(data)
    # Generated packages start with code, so they need not be parsed to know they have no docstring.
    if not re.match(_STARTS_WITH_STRING, text):
        return ""
    described = docstring(parse(text).body)
    refuse_surrogates([described])
    return described
