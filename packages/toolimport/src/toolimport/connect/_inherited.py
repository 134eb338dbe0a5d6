"""Variables that every server gets: those that are needed to start programs.

None is called like a secret. But the address of a proxy or of an index of packages may have a
password in it, and without it `uvx` and `npx` get nothing from there: it is handed on, and never
shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from toolimport.connect._secrets import NAMES_A_SECRET

if TYPE_CHECKING:
    from collections.abc import Mapping

# Besides those that the library hands on (PATH, HOME and the like): how the network is reached, and
# where `uvx` and `npx` get what they start. Nothing else: a server is a stranger.
_NEEDED = re.compile(
    r"(?:https?|all|no)_proxy"
    r"|ssl_cert_(?:file|dir)|requests_ca_bundle|curl_ca_bundle|node_extra_ca_certs|git_ssl_cainfo"
    r"|uv_.+|pip_.+|npm_config_\w+|xdg_.+|lang|language|lc_.+|tz|tmpdir|virtual_env|pyenv_.+|nvm_.+",
    re.IGNORECASE,
)


def inherited(environment: Mapping[str, str]) -> dict[str, str]:
    """Choose the variables that a server gets unasked; their addresses may hold passwords."""
    return {
        name: value
        for name, value in environment.items()
        if _NEEDED.fullmatch(name) and not NAMES_A_SECRET.search(name)
    }
