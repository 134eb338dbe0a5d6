from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    schema_: Optional[str] = Field(None, alias="schema", description="Schema (default: public)")
    includeViews: Optional[bool] = True


from . import CLIENT


def run(params: Params) -> str:
    """List the tables and views of the connected database with their approximate row counts."""
    return CLIENT.run_sync(
        tool_name="list_tables", tool_args=params.model_dump(by_alias=True, exclude_none=True)
    )
