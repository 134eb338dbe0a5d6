from __future__ import annotations

from pydantic import BaseModel, Field


class ReleaseNotes(BaseModel):
    """Release notes grouped by kind of change."""

    markdown: str = Field(..., title="Notes ready to paste into a release")
    features: list[str] = Field(..., title="New features")
    fixes: list[str] = Field(..., title="Bug fixes")
    other: list[str] = Field(..., title="Everything else")


def run(owner: str, repo: str, since: str, until: str | None = None) -> ReleaseNotes:
    """Draft a changelog for a new version from the commit messages since the last one.

    Commits are sorted into features and fixes by their conventional prefix (``feat:``, ``fix:``);
    the rest goes under "Other". Merge commits are dropped.

    Args:
        owner: Account that owns the repository
        repo: Repository name
        since: Moment of the previous release (ISO 8601)
        until: Moment at which to stop (default: now)

    Returns:
        The notes as Markdown and as three lists
    """
    from .impl import draft

    return draft(owner, repo, since, until)
