from __future__ import annotations

from pydantic import BaseModel, Field


class FolderSize(BaseModel):
    """Space taken by one folder and all that is below it."""

    path: str = Field(..., title="Path of the folder")
    bytes: int = Field(..., title="Sum of the file sizes")
    files: int = Field(..., title="Number of files")


def run(root: str, top: int = 10) -> list[FolderSize]:
    """Find out which folders take up the most disk space below a directory.

    Links are not followed, and folders that may not be read are skipped.

    Args:
        root: Directory to examine
        top: How many of its direct subfolders to report

    Returns:
        The root itself first, then its largest subfolders
    """
    from .impl import report

    return report(root, top)
