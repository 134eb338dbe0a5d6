"""Read Python tool modules without importing them.

- **Scanning**: `scan` reads a tree and returns a `ScanReport` of records and issues; `read_tool`
  reads one file or raises; `find_tools` lists ids and paths without opening a file.
- **Records**: a `ToolRecord` has a `ToolId`, the docstring, `Parameter`s, and hashes that show
  whether anything changed; a `ScanIssue` has a `Reason` and a sentence that explains it.
- **For an agent**: `input_schema` and `output_schema` return JSON Schema, `stub` returns Python
  lines that show how to call the tool, `docstring_examples` the examples in the docstring.
- **Functions in memory**: `Docstring` reads a docstring by the rules for those in files.
- **Layouts**: a `Layout` says where tools are, and turns a path into an id; `LAYOUTS` contains the
  named ones.
- **Text**: `embedding_text` returns the text that is embedded for a tool, `split_identifier` splits
  a name into words.
"""

from typing import TYPE_CHECKING

from toolscan.errors import (
    InvalidLayoutError,
    InvalidToolIdError,
    RootNotFoundError,
    ToolReadError,
    ToolScanError,
)

if TYPE_CHECKING:
    from toolscan._docstrings import Docstring
    from toolscan._examples import docstring_examples
    from toolscan._find import find_tools
    from toolscan._hashing import TEXT_VERSION, embedding_text, split_identifier
    from toolscan._issues import Reason, ScanIssue
    from toolscan._layout import DEFAULT_LAYOUTS, LAYOUTS, Layout, ToolId
    from toolscan._records import RECORD_VERSION, FileStamp, Parameter, ScanReport, ToolRecord
    from toolscan._scan import read_tool, scan
    from toolscan._schema import input_schema, output_schema
    from toolscan._source import MAX_FILE_SIZE
    from toolscan._stub import stub
    from toolscan._syntax import MAX_DESCRIPTION
else:
    # Imported on first use, so that a scan that finds no change does not load the syntax reader.
    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})


__all__ = [  # noqa: RUF022  (grouped by what they are for)
    # Scanning
    "scan",
    "read_tool",
    "find_tools",
    "ScanReport",
    "ScanIssue",
    "Reason",
    "MAX_FILE_SIZE",
    "MAX_DESCRIPTION",
    # Records
    "ToolRecord",
    "ToolId",
    "Parameter",
    "FileStamp",
    "RECORD_VERSION",
    # What an agent is shown
    "input_schema",
    "output_schema",
    "stub",
    "docstring_examples",
    # Functions in memory
    "Docstring",
    # Layouts
    "Layout",
    "DEFAULT_LAYOUTS",
    "LAYOUTS",
    # Text
    "embedding_text",
    "split_identifier",
    "TEXT_VERSION",
    # Errors
    "ToolScanError",
    "RootNotFoundError",
    "ToolReadError",
    "InvalidToolIdError",
    "InvalidLayoutError",
]

_HOMES = {
    name: module
    for module, names in {
        "_docstrings": "Docstring",
        "_examples": "docstring_examples",
        "_find": "find_tools",
        "_hashing": "TEXT_VERSION embedding_text split_identifier",
        "_issues": "Reason ScanIssue",
        "_layout": "DEFAULT_LAYOUTS LAYOUTS Layout ToolId",
        "_records": "RECORD_VERSION FileStamp Parameter ScanReport ToolRecord",
        "_scan": "read_tool scan",
        "_schema": "input_schema output_schema",
        "_source": "MAX_FILE_SIZE",
        "_stub": "stub",
        "_syntax": "MAX_DESCRIPTION",
    }.items()
    for name in names.split()
}
