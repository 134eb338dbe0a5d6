from __future__ import annotations

from pydantic import BaseModel, Field


class StaleIssue(BaseModel):
    """An open issue that nobody has touched for a while."""

    number: int = Field(..., title="Issue number")
    title: str = Field(..., title="Title")
    days_idle: int = Field(..., title="Days since the last activity")
    assignee: str | None = Field(None, title="Login of the person in charge")


def run(owner: str, repo: str, idle_days: int = 60, limit: int = 100) -> list[StaleIssue]:
    """Report the issues of a GitHub repository that have gone quiet, longest idle first.

    Useful for triage: it only reads, so closing or pinging is left to the caller.

    Args:
        owner: Account that owns the repository
        repo: Repository name
        idle_days: Days without activity after which an issue counts as stale
        limit: Number of open issues to examine, least recently updated first (at most 100)

    Returns:
        The stale issues with the number of days since anything happened
    """
    from .impl import find_stale_issues

    return find_stale_issues(owner, repo, idle_days, limit)
