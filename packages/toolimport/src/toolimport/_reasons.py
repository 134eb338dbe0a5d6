"""Why something failed, in words."""

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
    """Return the first error of a group of errors, whatever groups are in it."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


def refusal(error: OSError) -> str:
    """Return why the system refused a file, and what to do about it."""
    reason = error.strerror or str(error)
    remedy = _REMEDIES.get(error.errno or 0)
    return f"{reason}; {remedy}" if remedy else reason
