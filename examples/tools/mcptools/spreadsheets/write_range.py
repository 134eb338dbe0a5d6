from __future__ import annotations

from typing import List, Optional, Union

from pydantic import BaseModel, ConfigDict, RootModel


class CellValue(RootModel[Union[str, int, float, bool, None]]):
    root: Union[str, int, float, bool, None]


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    spreadsheetId: str
    range: str
    """
    Upper-left cell or the whole block, in A1 notation
    """
    values: List[List[CellValue]]
    """
    Rows of cells. Strings that begin with "=" are formulas; null leaves a cell as it is.
    """
    parseInput: Optional[bool] = True
    """
    Interpret dates and numbers as if they were typed by hand
    """


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    updatedRange: str
    updatedCells: int


from . import CLIENT


def run(params: Params) -> Result:
    """Overwrite cells of a spreadsheet with new values or formulas.

    To put records below the existing ones use append_rows, which finds the end of the table
    itself.
    """
    result = CLIENT.run_sync(
        tool_name="write_range", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
