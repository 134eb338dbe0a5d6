from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    amount: float
    from_: str = Field(..., alias="from", description="ISO 4217 code of the amount given")
    to: str
    """
    ISO 4217 code of the amount wanted
    """
    date: Optional[str] = None
    """
    Use the rate of this day (default: the latest)
    """


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    amount: float
    rate: float
    rateDate: str


from . import CLIENT


def run(params: Params) -> Result:
    """Convert an amount of money between currencies at the reference exchange rate of a day.

    Rates are those of the central bank, published on working days. Card and bank fees are not
    in.
    """
    result = CLIENT.run_sync(
        tool_name="convert_currency", tool_args=params.model_dump(by_alias=True, exclude_none=True)
    )
    return Result.model_validate(result)
