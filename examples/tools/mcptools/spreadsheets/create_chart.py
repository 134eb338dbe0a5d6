from __future__ import annotations

from enum import Enum
from typing import List, Optional

from pydantic import BaseModel, ConfigDict, Field


class ChartType(Enum):
    bar = "bar"
    line = "line"
    pie = "pie"
    scatter = "scatter"
    area = "area"


class Axis(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    title: Optional[str] = None
    minimum: Optional[float] = None
    maximum: Optional[float] = None


class Series(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    name: str
    range: str


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    spreadsheetId: str
    sheet: str
    type: ChartType
    series: List[Series] = Field(..., min_length=1)
    labels: Optional[str] = None
    """
    Range with the category names
    """
    title: Optional[str] = None
    xAxis: Optional[Axis] = None
    yAxis: Optional[Axis] = None


from . import CLIENT


def run(params: Params) -> str:
    """Draw a bar, line, pie, scatter or area graph from worksheet data, onto the sheet."""
    return CLIENT.run_sync(tool_name="create_chart", tool_args=params.model_dump(exclude_none=True))
