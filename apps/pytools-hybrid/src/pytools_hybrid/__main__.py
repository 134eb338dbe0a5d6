"""`python -m pytools_hybrid`: the command line; without arguments, the MCP server."""

import sys

from pytools_hybrid.cli import main

if __name__ == "__main__":
    main(sys.argv[1:] or ["serve"])
