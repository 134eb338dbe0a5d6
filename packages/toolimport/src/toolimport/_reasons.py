"""Why something failed, as text."""

from __future__ import annotations

import errno
from typing import cast

_PERMISSION = "grant yourself permission (chmod, chown), or choose another place"
_REMEDIES = {
    errno.EACCES: _PERMISSION,
    errno.EPERM: _PERMISSION,
    errno.EROFS: "choose a writable place",
    errno.ENOSPC: "free some disk space, and run it again",
}


def innermost(error: BaseException) -> BaseException:
    """Return the first error of an exception group, however deeply groups are nested."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def refusal(error: OSError) -> str:
    """Return why the operating system refused access to a file, and what to do about it."""
    reason = error.strerror or str(error)
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{reason}; {remedy}" if remedy else reason
