"""Hiding keys in what providers answer: some repeat the one that they were asked with."""

from __future__ import annotations

import os
import re
from urllib.parse import quote

_NAMES_A_KEY = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_OF_ADDRESS = re.compile(r"(?<=://)[^\s/@]+@")
# What is shorter is a word, as `test`, and nobody's key.
_SHORTEST = 8


def without_keys(text: str) -> str:
    """Put names of variables for the keys that they hold, and leave users out of addresses."""
    names: dict[str, str] = {}
    for name, value in os.environ.items():
        key = value.strip()
        if _NAMES_A_KEY.search(name) and len(key) >= _SHORTEST:
            names |= {key: name, quote(key, safe=""): name}
    # The longest first: one may be a part of another.
    for key in sorted(names, key=len, reverse=True):
        text = text.replace(key, f"[{names[key]}]")
    return _OF_ADDRESS.sub("…@", text)
