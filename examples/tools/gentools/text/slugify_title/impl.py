from __future__ import annotations

import re
import unicodedata


def slugify(title: str, max_length: int) -> str:
    """Reduce a title to ASCII words joined by hyphens."""
    ascii_title = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    slug = "-".join(re.findall(r"[a-z0-9]+", ascii_title.lower()))
    if len(slug) <= max_length:
        return slug
    cut = slug[: max_length + 1].rpartition("-")[0]
    return cut or slug[:max_length]
