"""Hiding keys in providers' answers: some repeat the key of the request."""

from __future__ import annotations

import os
import re
from urllib.parse import quote

_NAMES_A_KEY = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_OF_ADDRESS = re.compile(r"(?<=://)[^\s/@]+@")
# Anything shorter is a word, such as `test`, and not a key.
_SHORTEST = 8


def without_keys(text: str) -> str:
    """Replace keys with the names of their variables, and remove user names from URLs."""
    names: dict[str, str] = {}
    for name, value in os.environ.items():
        key = value.strip()
        if _NAMES_A_KEY.search(name) and len(key) >= _SHORTEST:
            names |= {key: name, quote(key, safe=""): name}
    # The longest first: one may be a part of another.
    for key in sorted(names, key=len, reverse=True):
        text = text.replace(key, f"[{names[key]}]")
    return _OF_ADDRESS.sub("…@", text)
