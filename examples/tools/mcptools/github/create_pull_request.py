from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    owner: str
    repo: str
    title: str
    head: str
    """
    Branch with the changes; write "login:branch" when it lives in a fork
    """
    base: str
    """
    Branch that should receive the changes, such as "main"
    """
    body: Optional[str] = None
    """
    What changes and why. "Fixes #12" closes that issue on merge.
    """
    draft: Optional[bool] = None
    """
    Open as a draft, which cannot be merged until marked ready (default: false)
    """
    maintainer_can_modify: Optional[bool] = None
    """
    Let maintainers push to the head branch (default: true)
    """


from . import CLIENT


def run(params: Params) -> str:
    """Propose to merge one branch into another and open it for review.

    The head branch must already be pushed and be at least one commit ahead of the base. Fails
    with 422 when a pull request for the same pair of branches is open.
    """
    return CLIENT.run_sync(
        tool_name="create_pull_request", tool_args=params.model_dump(exclude_none=True)
    )
