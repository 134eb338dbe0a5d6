from __future__ import annotations

from typing import Dict, List, Optional

from pydantic import BaseModel, ConfigDict, Field


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    command: List[str] = Field(..., min_length=1)
    """
    Program and arguments, one string each. There is no shell, so pipes and globs do nothing.
    """
    cwd: Optional[str] = None
    env: Optional[Dict[str, str]] = None
    """
    Variables to add to the environment
    """
    stdin: Optional[str] = None
    timeoutSeconds: Optional[float] = Field(60, gt=0, le=600)


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    exitCode: int
    stdout: str
    stderr: str
    timedOut: bool


from . import CLIENT


async def run(params: Params) -> Result:
    """Run a program on this machine and capture its output and exit code.

    Long-running servers do not belong here: the program is killed when the time is up.
    """
    result = await CLIENT.run(
        tool_name="run_command", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
