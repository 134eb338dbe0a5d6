"""Commands in the remedies of findings, ready to be copied."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytools_hybrid.settings import Roots, Settings


class Commands:
    """Commands with the flags that select what was checked."""

    def __init__(self, settings: Settings, roots: Roots) -> None:
        self._settings = settings
        self._roots = roots

    def index(self) -> str:
        """Return the command that brings the index up to date."""
        flags = [part for root in self._roots for part in ("--root", str(root))]
        if self._settings.database is not None:
            flags += ["--database", str(self._settings.database)]
        # Variables and the settings file apply to the command too, so only flags are repeated.
        if self._settings.origins.get("embedding_model", "").startswith("--"):
            flags += ["--embedding-model", self._settings.embedding_model]
        return shlex.join(["pytools-hybrid", "index", *flags])
