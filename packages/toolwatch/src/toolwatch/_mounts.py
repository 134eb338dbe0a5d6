"""On which file systems the changes that others make are not announced here."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["silent_file_system"]

MOUNTS = Path("/proc/self/mountinfo")

# The kernel announces what passes through this machine. What another machine, the host of a
# virtual one, or a server in user space does to the same files, it never hears of.
_SILENT = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "drvfs",
        "fakeowner",
        "gfs2",
        "glusterfs",
        "gpfs",
        "grpcfuse",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "osxfs",
        "prl_fs",
        "smb3",
        "smbfs",
        "vboxsf",
        "virtiofs",
        "vmhgfs",
    }
)
# File systems in user space are remote as a rule; these are known to be local.
_LOCAL_FUSE = frozenset({"fuse.fuse-overlayfs", "fuse.encfs", "fuse.gocryptfs", "fuse.cryfs"})


def silent_file_system(device: int) -> str | None:
    """Give the type of the file system on a device if it does not announce every change.

    A device that is not listed counts as one that does: a few local file systems (btrfs) give
    folders numbers of their own.
    """
    try:
        mounts = MOUNTS.read_text("utf-8", "replace")
    except OSError:
        return None
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        mount, _, file_system = line.partition(" - ")
        fields, kind = mount.split(), file_system.split(maxsplit=1)
        if len(fields) > 2 and fields[2] == number and kind and _is_silent(kind[0]):
            return kind[0]
    return None


def _is_silent(kind: str) -> bool:
    in_user_space = kind == "fuse" or kind.startswith("fuse.")
    return kind in _SILENT or (in_user_space and kind not in _LOCAL_FUSE)
