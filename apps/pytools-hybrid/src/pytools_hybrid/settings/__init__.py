"""Settings (flags over environment over file over defaults) and the roots that they name."""

from pytools_hybrid.settings.fields import ALIASES as ALIASES
from pytools_hybrid.settings.fields import DEFAULT_LIMIT as DEFAULT_LIMIT
from pytools_hybrid.settings.fields import MAX_LIMIT as MAX_LIMIT
from pytools_hybrid.settings.fields import REMEDIES as REMEDIES
from pytools_hybrid.settings.fields import AliasError as AliasError
from pytools_hybrid.settings.fields import check_language_model as check_language_model
from pytools_hybrid.settings.fields import is_address as is_address
from pytools_hybrid.settings.fields import renamed as renamed
from pytools_hybrid.settings.fields import why_unusable as why_unusable
from pytools_hybrid.settings.load import IDLE_PATTERN as IDLE_PATTERN
from pytools_hybrid.settings.load import Settings as Settings
from pytools_hybrid.settings.load import flag as flag
from pytools_hybrid.settings.load import is_allowed_in_found as is_allowed_in_found
from pytools_hybrid.settings.load import tuned_path as tuned_path
from pytools_hybrid.settings.load import variable as variable
from pytools_hybrid.settings.roots import DEFAULT_ROOT as DEFAULT_ROOT
from pytools_hybrid.settings.roots import Roots as Roots
from pytools_hybrid.settings.roots import RootsLike as RootsLike
from pytools_hybrid.settings.roots import check_roots as check_roots
from pytools_hybrid.settings.roots import fitting_layouts as fitting_layouts
from pytools_hybrid.settings.roots import is_folder as is_folder
from pytools_hybrid.settings.roots import missing as missing
from pytools_hybrid.settings.roots import no_tools as no_tools
from pytools_hybrid.settings.roots import shown_layouts as shown_layouts
from pytools_hybrid.settings.roots import without_tools as without_tools
