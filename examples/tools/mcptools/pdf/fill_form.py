from __future__ import annotations

from typing import List, Optional, Union

from pydantic import BaseModel, ConfigDict


class FieldValue(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    name: str
    value: Union[str, bool]
    """
    Text for text fields, the option for choices, true or false for checkboxes
    """


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    fields: List[FieldValue]
    output: str
    flatten: Optional[bool] = None
    """
    Make the answers part of the page, so that they cannot be edited any more
    """


from . import CLIENT


def run(params: Params) -> str:
    """Complete the fields of an interactive PDF form and save the result as a new file.

    Names of fields must match exactly; unknown ones are returned in the error with close
    matches.
    """
    return CLIENT.run_sync(tool_name="fill_form", tool_args=params.model_dump(exclude_none=True))
