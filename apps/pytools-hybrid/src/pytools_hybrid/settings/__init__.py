"""Settings: flags over environment over file over defaults; and the roots that they name."""

from pytools_hybrid.settings._aliases import ALIASES, AliasError, renamed
from pytools_hybrid.settings._file import find_settings_file, read_settings_file
from pytools_hybrid.settings._language_models import check_model_name
from pytools_hybrid.settings._nearby import LAYOUTS, meant_folder, nearby_root, no_tools
from pytools_hybrid.settings._remedies import REMEDIES
from pytools_hybrid.settings._roots import Roots, RootsLike
from pytools_hybrid.settings._settings import EXPOSING, Settings, flag, variable

__all__ = [
    "ALIASES",
    "EXPOSING",
    "LAYOUTS",
    "REMEDIES",
    "AliasError",
    "Roots",
    "RootsLike",
    "Settings",
    "check_model_name",
    "find_settings_file",
    "flag",
    "meant_folder",
    "nearby_root",
    "no_tools",
    "read_settings_file",
    "renamed",
    "variable",
]
