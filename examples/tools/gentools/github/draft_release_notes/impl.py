from __future__ import annotations

import re

from mcptools.github import list_commits

from .api import ReleaseNotes

_PREFIX = re.compile(r"^(?P<kind>[a-z]+)(\([^)]*\))?!?:\s*(?P<text>.+)$")


def draft(owner: str, repo: str, since: str, until: str | None) -> ReleaseNotes:
    """Group the commits of the period and render them."""
    page = list_commits.run_parsed(
        list_commits.Params(owner=owner, repo=repo, since=since, until=until, perPage=100)
    )
    return group([commit.message for commit in page.commits])


def group(messages: list[str]) -> ReleaseNotes:
    """Sort the first lines of commit messages into features, fixes and the rest."""
    features: list[str] = []
    fixes: list[str] = []
    other: list[str] = []
    for message in messages:
        subject = message.partition("\n")[0].strip()
        if not subject or subject.startswith("Merge "):
            continue
        match = _PREFIX.match(subject)
        kind, text = (match["kind"], match["text"]) if match else ("", subject)
        {"feat": features, "fix": fixes}.get(kind, other).append(text)
    sections = [("Features", features), ("Fixes", fixes), ("Other", other)]
    markdown = "\n\n".join(
        f"## {heading}\n\n" + "\n".join(f"- {line}" for line in lines)
        for heading, lines in sections
        if lines
    )
    return ReleaseNotes(markdown=markdown, features=features, fixes=fixes, other=other)
