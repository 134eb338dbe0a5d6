from __future__ import annotations

from typing import Literal, Optional

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    room: Optional[str] = None
    kind: Optional[Literal["light", "thermostat", "lock", "sensor", "plug", "camera"]] = None


from . import CLIENT


def run(params: Params) -> str:
    """List the smart devices in the house, by room, with their present state and battery level."""
    return CLIENT.run_sync(tool_name="list_devices", tool_args=params.model_dump(exclude_none=True))
