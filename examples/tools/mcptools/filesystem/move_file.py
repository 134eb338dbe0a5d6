from __future__ import annotations

from typing import Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    source: str
    destination: str
    overwrite: Optional[bool] = None
    """
    Replace the destination when it exists (default: false, which fails)
    """


from . import CLIENT


def run(params: Params) -> str:
    """Move or rename a file or a whole directory."""
    return CLIENT.run_sync(tool_name="move_file", tool_args=params.model_dump(exclude_none=True))
