from __future__ import annotations

from typing import List

from pydantic import BaseModel, ConfigDict


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    text: str


class Candidate(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    language: str
    confidence: float


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    candidates: List[Candidate]


from . import CLIENT


def run(params: Params) -> Result:
    """Identify which language a text is written in, with a confidence for each candidate."""
    result = CLIENT.run_sync(
        tool_name="detect_language", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
