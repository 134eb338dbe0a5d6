"""The installed toolscan, and its command, read a folder of tools."""

import subprocess
import sys

from toolscan import scan

folder = sys.argv[1]
found = {str(record.id) for record in scan(folder).records}
assert "mcptools:github:create_issue" in found
printed = subprocess.run(["toolscan", folder], capture_output=True, text=True, check=True).stdout
assert "mcptools:github:create_issue" in printed, printed
print(f"{len(found)} tools read")
