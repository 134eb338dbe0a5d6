from __future__ import annotations

import json
from datetime import UTC, datetime

from mcptools.github import list_issues

from .api import StaleIssue


def find_stale_issues(owner: str, repo: str, idle_days: int, limit: int) -> list[StaleIssue]:
    """Read the least recently updated open issues and keep those idle long enough."""
    raw = list_issues.run(
        list_issues.Params(
            owner=owner,
            repo=repo,
            state=list_issues.State.open,
            sort=list_issues.Sort.updated,
            direction=list_issues.Direction.asc,
            perPage=limit,
        )
    )
    now = datetime.now(UTC)
    stale = []
    for issue in json.loads(raw):
        idle = (now - datetime.fromisoformat(issue["updated_at"])).days
        if idle >= idle_days:
            assignee = issue.get("assignee") or {}
            stale.append(
                StaleIssue(
                    number=issue["number"],
                    title=issue["title"],
                    days_idle=idle,
                    assignee=assignee.get("login"),
                )
            )
    return sorted(stale, key=lambda issue: -issue.days_idle)
