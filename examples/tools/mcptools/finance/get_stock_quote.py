from __future__ import annotations

from typing import List

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    symbols: List[str] = Field(..., min_length=1, max_length=50)
    """
    Ticker symbols with the exchange when needed, such as "SAP.DE"
    """


class Quote(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    symbol: str
    price: float
    currency: str
    changePercent: float
    volume: int


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    quotes: List[Quote]


from . import CLIENT


def run(params: Params) -> Result:
    """Get the latest share price, day's change and trading volume of listed companies or funds.

    Delayed by 15 minutes.
    """
    result = CLIENT.run_sync(
        tool_name="get_stock_quote", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
