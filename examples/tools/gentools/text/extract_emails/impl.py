from __future__ import annotations

import re
from collections import Counter

from .api import FoundAddress

_ADDRESS = re.compile(
    r"(?<![\w.+-])[a-z0-9_+%-]+(?:\.[a-z0-9_+%-]+)*@(?:[a-z0-9-]+\.)+[a-z]{2,}(?![\w-])",
    re.IGNORECASE,
)


def extract(text: str, domain: str | None) -> list[FoundAddress]:
    """Count the addresses in a text."""
    counts = Counter(match.lower() for match in _ADDRESS.findall(text))
    return [
        FoundAddress(address=address, occurrences=count)
        for address, count in counts.items()
        if domain is None or belongs_to(address, domain.lower())
    ]


def belongs_to(address: str, domain: str) -> bool:
    """Tell whether an address is at a domain or at one of its subdomains."""
    host = address.rpartition("@")[2]
    return host == domain or host.endswith(f".{domain}")
