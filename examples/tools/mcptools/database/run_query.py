from __future__ import annotations

from typing import Any, Dict, List, Optional, Union

from pydantic import BaseModel, ConfigDict, Field, RootModel


class QueryValue(RootModel[Union[str, int, float, bool, None]]):
    root: Union[str, int, float, bool, None]


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    sql: str
    """
    A single SELECT, with :name placeholders for values
    """
    parameters: Optional[Dict[str, QueryValue]] = None
    """
    Values for the placeholders; never paste user input into the SQL
    """
    maxRows: Optional[int] = Field(500, ge=1, le=10000)
    timeoutSeconds: Optional[float] = 30


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    columns: List[str]
    rows: List[List[Any]]
    truncated: bool


from . import CLIENT


def run(params: Params) -> Result:
    """Run a read-only SQL SELECT and return the rows.

    The session is opened in read-only mode, so statements that change data fail.

    Tips:
    - Call describe_table first when the column names are not known.
    - Let the database count, sum and group instead of fetching every row.
    - When an answer is truncated, add ORDER BY and page with LIMIT and OFFSET.
    """
    result = CLIENT.run_sync(tool_name="run_query", tool_args=params.model_dump(exclude_none=True))
    return Result.model_validate(result)
