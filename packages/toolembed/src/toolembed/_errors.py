"""The error of this package, and what to do after it."""

from __future__ import annotations

import os
import re
from enum import StrEnum
from urllib.parse import quote

_NAMES_A_KEY = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)
_USER_OF_URL = re.compile(r"(?<=://)[^\s/@]+@")
# Anything shorter is a word, such as `test`, and not a key.
_SHORTEST_KEY = 8


class FailureKind(StrEnum):
    """What to do after an embedder has failed.

    Attributes:
        TRANSIENT: Try again later: no connection, too many requests.
        SLOW: Send fewer texts at once: the request timed out.
        REFUSED: Leave this text out: the model does not accept it.
        DIMENSIONS: Embed all texts again: the length of the vectors has changed.
        UNAVAILABLE: Fix the setup first: no key, no package, no such model, no credit.
    """

    TRANSIENT = "transient"
    SLOW = "slow"
    REFUSED = "refused"
    DIMENSIONS = "dimensions"
    UNAVAILABLE = "unavailable"


class EmbeddingError(Exception):
    """An embedding model returned no usable vectors, or cannot be used.

    Attributes:
        model: The model, as `Embedder.model_id` names it.
        reason: What went wrong, without the model.
        kind: What to do next.
        retry_after: The seconds that the provider asked to wait.
    """

    def __init__(
        self,
        model: str,
        reason: str,
        *,
        kind: FailureKind = FailureKind.TRANSIENT,
        retry_after: float | None = None,
        message: str = "",
    ) -> None:
        super().__init__(message or f"embedding model {model!r}: {reason}")
        self.model = model
        self.reason = reason
        self.kind = kind
        self.retry_after = retry_after


def redact_keys(text: str) -> str:
    """Replace keys with the names of their variables, and remove user names from URLs.

    Some providers repeat the key of a request in their answers.
    """
    names: dict[str, str] = {}
    for name, value in os.environ.items():
        key = value.strip()
        if _NAMES_A_KEY.search(name) and len(key) >= _SHORTEST_KEY:
            names |= {key: name, quote(key, safe=""): name}
    # The longest first: one may be a part of another.
    for key in sorted(names, key=len, reverse=True):
        text = text.replace(key, f"[{names[key]}]")
    return _USER_OF_URL.sub("…@", text)
