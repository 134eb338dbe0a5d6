from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    owner: str
    repo: str
    issue_number: int
    """
    Number of the issue or of the pull request
    """
    body: str
    """
    The comment, in Markdown
    """


from . import CLIENT


def run(params: Params) -> str:
    """Reply in the conversation of an issue or pull request.

    Remarks on particular lines of a diff are review comments and cannot be made with this tool.
    """
    return CLIENT.run_sync(
        tool_name="add_issue_comment", tool_args=params.model_dump(exclude_none=True)
    )
