"""The installed pytools-hybrid answers a search, with the embedding model that comes with it."""

import subprocess
import sys

search = ["pytools-hybrid", "search", "open an issue on github", "--root", sys.argv[1]]
printed = subprocess.run(
    [*search, "--db", "search.db"], capture_output=True, encoding="utf-8", check=True
).stdout
assert "mcptools:github:create_issue" in printed, printed
print(printed)
