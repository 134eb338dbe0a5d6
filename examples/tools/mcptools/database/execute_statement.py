from __future__ import annotations

from typing import Any, Dict, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    sql: str
    """
    One INSERT, UPDATE, DELETE or DDL statement
    """
    parameters: Optional[Dict[str, Any]] = None
    dryRun: Optional[bool] = None
    """
    Run it in a transaction that is rolled back, and report how many rows it would touch
    """


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    rowsAffected: int


from . import CLIENT


def run(params: Params) -> Result:
    """Change the database: insert, update or delete records, or create and alter tables.

    An UPDATE or DELETE without WHERE is refused.
    """
    result = CLIENT.run_sync(
        tool_name="execute_statement", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
