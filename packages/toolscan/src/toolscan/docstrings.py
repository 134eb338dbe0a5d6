"""Reading the docstring of a function in memory, by the rules for those in tool modules."""

from toolscan._docstrings import Docstring as Docstring
