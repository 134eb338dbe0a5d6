"""The Args section of a docstring, through griffe's parsers."""

from __future__ import annotations

from typing import Literal, cast

from griffe import Docstring, DocstringSectionKind

__all__ = ["parse_parameters"]

_KINDS = {DocstringSectionKind.parameters, DocstringSectionKind.other_parameters}


def parse_parameters(text: str, style: str) -> dict[str, str]:
    """Give the description of each parameter that a docstring of this style describes."""
    parser = cast('Literal["google", "numpy", "sphinx"]', style)
    return {
        item.name.lstrip("*"): " ".join(item.description.split())
        for section in Docstring(text).parse(parser, warnings=False)
        if section.kind in _KINDS
        for item in section.value
        if item.description
    }
