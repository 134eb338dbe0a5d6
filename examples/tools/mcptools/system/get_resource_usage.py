from __future__ import annotations

from enum import Enum
from typing import List, Optional

from pydantic import BaseModel, ConfigDict


class Metric(Enum):
    cpu = "cpu"
    memory = "memory"
    disk = "disk"
    network = "network"


class Params(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    metrics: Optional[List[Metric]] = None
    """
    Default: all of them
    """
    sampleSeconds: Optional[float] = 1.0


class DiskUsage(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    mountPoint: str
    totalBytes: int
    freeBytes: int


class Result(BaseModel):
    model_config = ConfigDict(
        extra="forbid",
        use_enum_values=True,
    )
    cpuPercent: Optional[float] = None
    memoryUsedBytes: Optional[int] = None
    memoryTotalBytes: Optional[int] = None
    disks: Optional[List[DiskUsage]] = None
    networkBytesPerSecond: Optional[float] = None


from . import CLIENT


def run(params: Params) -> Result:
    """Measure how busy the computer is: processor load, memory, disk space, network traffic."""
    result = CLIENT.run_sync(
        tool_name="get_resource_usage", tool_args=params.model_dump(exclude_none=True)
    )
    return Result.model_validate(result)
