"""Search for programs: blocking, over tools in memory, and in agent frameworks."""

from pytools_hybrid.agents._blocking import BlockingIndex, BlockingToolSearch
from pytools_hybrid.agents._calling import load_tool, result_text
from pytools_hybrid.agents._corpus import ToolCorpus
from pytools_hybrid.agents._definitions import ToolDefinition
from pytools_hybrid.agents._functions import FoundFunction
from pytools_hybrid.agents._tool_function import ToolFunction

__all__ = [
    "BlockingIndex",
    "BlockingToolSearch",
    "FoundFunction",
    "ToolCorpus",
    "ToolDefinition",
    "ToolFunction",
    "load_tool",
    "result_text",
]
