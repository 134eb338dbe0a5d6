from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    path: str
    content: str
    create_parents: Optional[bool] = None
    """
    Make missing parent directories
    """


from . import CLIENT


def run(params: Params) -> str:
    """Save text to a file, creating it or overwriting everything that was in it.

    The replacement is atomic: readers see the old file or the new one, never half of it. To
    change a few lines and keep the rest, use edit_file.
    """
    return CLIENT.run_sync(tool_name="write_file", tool_args=params.model_dump(exclude_none=True))
