from __future__ import annotations

from enum import Enum
from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class SortBy(Enum):
    name = "name"
    size = "size"
    modified = "modified"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    sortBy: Optional[SortBy] = None
    includeHidden: Optional[bool] = None


class Kind(Enum):
    file = "file"
    directory = "directory"
    link = "link"


class Entry(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    name: str
    kind: Kind
    size: Optional[int] = None


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    entries: List[Entry]


from . import CLIENT


def run(params: Params) -> Result:
    """List what a directory holds, one level deep, marking files and subdirectories."""
    result = CLIENT.run_sync(
        tool_name="list_directory", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
