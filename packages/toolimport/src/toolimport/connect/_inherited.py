"""Environment variables that every server inherits: those needed to start programs.

None is named like a secret, but the address of a proxy or a package index may contain a password.
It is passed on, because `uvx` and `npx` need it, and never shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolimport.connect._secrets import NAMES_A_SECRET

if TYPE_CHECKING:
    from collections.abc import Mapping

# In addition to those that the library passes on (PATH, HOME and the like): network settings, and
# where `uvx` and `npx` get packages. Nothing else, because servers are not trusted.
_NEEDED = re.compile(
    r"(?:https?|all|no)_proxy"
    r"|ssl_cert_(?:file|dir)|requests_ca_bundle|curl_ca_bundle|node_extra_ca_certs|git_ssl_cainfo"
    r"|uv_.+|pip_.+|npm_config_\w+|xdg_.+|lang|language|lc_.+|tz|tmpdir|virtual_env|pyenv_.+|nvm_.+",
    re.IGNORECASE,
)


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Choose the variables that every server inherits; their addresses may contain passwords."""
    return {
        name: value
        for name, value in environment.items()
        if _NEEDED.fullmatch(name) and not NAMES_A_SECRET.search(name)
    }
