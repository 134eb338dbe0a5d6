"""The installed toolwatch sees a file that is written."""

import asyncio
from pathlib import Path

from toolwatch import awatch_tools


async def first_paths(root: Path) -> list[str]:
    """Write a file once the folder is watched, and give the next batch."""
    async with asyncio.timeout(60):
        async for batch in awatch_tools(root):
            if not batch.rescan:
                return [str(path) for path in batch.paths]
            (root / "tool.py").write_text("def run(): ...\n", "utf-8")
    raise AssertionError("the batches ended")


root = Path("watched")
root.mkdir()
assert asyncio.run(first_paths(root)) == ["tool.py"]
print("a written file was noticed")
