from __future__ import annotations

from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    owner: str
    """
    Account or organization that owns the repository
    """
    repo: str
    """
    Repository name, without the owner
    """
    title: str
    """
    One line that names the problem; shown in every list
    """
    body: Optional[str] = None
    """
    Full report in GitHub-flavoured Markdown. Checklists, code fences and @mentions work.
    """
    labels: Optional[List[str]] = None
    """
    Labels that already exist in the repository. Unknown labels are rejected.
    """
    assignees: Optional[List[str]] = None
    """
    Logins of up to 10 people who can be assigned
    """
    milestone: Optional[int] = None
    """
    Number of the milestone, not its title
    """


from . import CLIENT


def run(params: Params) -> str:
    """Open a new issue in a GitHub repository, to report a bug, ask for a feature or record work.

    Search the existing issues first, so that the same defect is not reported twice. To add to a
    discussion that is already there, use add_issue_comment; to propose finished code, use
    create_pull_request.

    Returns the new issue as JSON, with its number and html_url.
    """
    return CLIENT.run_sync(tool_name="create_issue", tool_args=params.model_dump(exclude_none=True))
