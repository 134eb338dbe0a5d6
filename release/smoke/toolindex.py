"""The installed toolindex keeps a folder of tools, with the installed toolscan."""

import sys
from pathlib import Path

from toolindex import ToolIndex
from toolscan import scan

with ToolIndex(Path("search.db")) as index:
    report = index.sync(scan(sys.argv[1]), reader_version="1")
    with index.reading() as reader:
        (entry,) = reader.entries(["mcptools:github:create_issue"]).values()
print(f"{report.added} tools indexed, {entry.id} among them")
