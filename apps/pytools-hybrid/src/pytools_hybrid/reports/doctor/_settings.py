"""Checking the settings, and variables that look like settings but are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytools_hybrid.errors import SettingsError
from pytools_hybrid.reports.doctor._finding import Verdict, failed, fine, warning

if TYPE_CHECKING:
    from pytools_hybrid.settings import Settings

_SHOW = "pytools-hybrid config"


def look_at_settings(settings: Settings | SettingsError) -> Verdict:
    """Check the settings, without showing their values, because one of them is a token."""
    if isinstance(settings, SettingsError):
        return failed(str(settings), f"change or remove {settings.setting}")
    if unknown := type(settings).unknown_variables():
        names = [
            f"{name} is not a setting" + (f" (is {nearest} meant?)" if nearest else "")
            for name, nearest in unknown.items()
        ]
        return warning("; ".join(names), f"unset {' '.join(unknown)}")
    if not settings.origins:
        return fine(f"none is set: all defaults ({_SHOW} shows them)")
    origins = ", ".join(f"{name} ({origin})" for name, origin in settings.origins.items())
    return fine(f"{origins} ({_SHOW} shows all)")
