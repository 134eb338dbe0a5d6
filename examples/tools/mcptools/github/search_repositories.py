from __future__ import annotations

from enum import Enum
from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Sort(Enum):
    stars = "stars"
    forks = "forks"
    updated = "updated"


class Order(Enum):
    asc = "asc"
    desc = "desc"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    query: str
    """
    Free words plus qualifiers, for example "topic:parser language:rust stars:>500"
    """
    sort: Optional[Sort] = None
    """
    Order by this figure instead of by relevance
    """
    order: Optional[Order] = None
    page: Optional[int] = None
    perPage: Optional[int] = None


class Repository(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    full_name: str = Field(..., title="Full name", description="Owner and name, with a slash")
    description: Optional[str] = Field(None, title="Description")
    stargazers_count: int = Field(..., title="Stars")
    language: Optional[str] = Field(None, title="Main programming language")
    html_url: str = Field(..., title="Link to the repository")


class ParseResult(BaseModel):
    model_config = ConfigDict(
        use_enum_values=True,
    )
    total_count: int = Field(..., title="Total", description="Matches, including later pages")
    repositories: List[Repository] = Field(..., title="Repositories of this page")


from . import CLIENT


def run(params: Params) -> str:
    """Find public code repositories on GitHub by topic, language, owner or popularity.

    Searches names, descriptions, topics and READMEs, not the code itself. At most 1,000 results
    can be paged through.
    """
    return CLIENT.run_sync(
        tool_name="search_repositories", tool_args=params.model_dump(exclude_none=True)
    )


def run_parsed(params: Params) -> ParseResult:
    """Find public code repositories on GitHub by topic, language, owner or popularity, as objects.

    Searches names, descriptions, topics and READMEs, not the code itself. Each repository comes
    with its star count, main language and link. At most 1,000 results can be paged through.
    """
    return ParseResult.model_validate_json(run(params))
