"""Settings (flags over environment over file over defaults) and the roots that they name."""

from pytools_hybrid.settings._aliases import ALIASES, AliasError, renamed
from pytools_hybrid.settings._fields import DEFAULT_LIMIT, MAX_LIMIT
from pytools_hybrid.settings._file import (
    find_settings_file,
    is_allowed_in_found,
    read_settings_file,
)
from pytools_hybrid.settings._layouts import shown_layouts
from pytools_hybrid.settings._models import REMEDIES, check_model_name, why_unusable
from pytools_hybrid.settings._nearby import (
    check_roots,
    fitting_layouts,
    is_folder,
    meant_folder,
    missing,
    no_tools,
    without_tools,
)
from pytools_hybrid.settings._roots import DEFAULT_ROOT, Roots, RootsLike
from pytools_hybrid.settings._server import is_address
from pytools_hybrid.settings._settings import IDLE_PATTERN, Settings, flag, tuned_path, variable

__all__ = [
    "ALIASES",
    "DEFAULT_LIMIT",
    "DEFAULT_ROOT",
    "IDLE_PATTERN",
    "MAX_LIMIT",
    "REMEDIES",
    "AliasError",
    "Roots",
    "RootsLike",
    "Settings",
    "check_model_name",
    "check_roots",
    "find_settings_file",
    "fitting_layouts",
    "flag",
    "is_address",
    "is_allowed_in_found",
    "is_folder",
    "meant_folder",
    "missing",
    "no_tools",
    "read_settings_file",
    "renamed",
    "shown_layouts",
    "tuned_path",
    "variable",
    "why_unusable",
    "without_tools",
]
