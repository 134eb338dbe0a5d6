from __future__ import annotations

from typing import Any, Dict, List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    table: str
    sampleRows: Optional[int] = Field(0, ge=0, le=20)
    """
    Also return this many example rows
    """


class Column(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    name: str
    type: str
    nullable: bool
    default: Optional[str] = None
    comment: Optional[str] = None


class ForeignKey(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    columns: List[str]
    referencedTable: str
    referencedColumns: List[str]


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    columns: List[Column]
    primaryKey: List[str]
    foreignKeys: List[ForeignKey]
    sample: Optional[List[Dict[str, Any]]] = None


from . import CLIENT


def run(params: Params) -> Result:
    """Show a table's columns, data types, keys, indexes and foreign-key references."""
    result = CLIENT.run_sync(
        tool_name="describe_table", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
