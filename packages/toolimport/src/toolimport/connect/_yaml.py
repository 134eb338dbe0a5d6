"""Reading YAML as clients do: by version 1.2, and without repeating what aliases multiply."""

from __future__ import annotations

import re
from typing import Any, cast

import yaml
from yaml.constructor import ConstructorError

# How much aliases may add to a text: ten lines of them could fill any memory.
_MOST_REPEATED = 1 << 20


class _Loader(yaml.SafeLoader):
    # In version 1.1, `yes` is true and 22:22 is a number.
    yaml_implicit_resolvers = {}  # noqa: RUF012 - as in the base class


for _tag, _pattern, _first in (
    ("bool", "true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", "[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    ("float", r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", "<<", "<"),
):
    cast("Any", _Loader).add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"(?:{_pattern})\Z"), [*_first]
    )


def load_yaml(text: str) -> object:
    """Parse a document; raise `yaml.YAMLError` if it is invalid, or `ValueError` if too large."""
    loader: Any = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _length(node, {}) > len(text) + _MOST_REPEATED:
            raise ValueError("its aliases repeat too much")
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _length(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Return the length of a node with its aliases written out; refuse a key that it has twice."""
    if node not in known:
        known[node] = 0
        inner: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            inner = node.value
        elif isinstance(node, yaml.MappingNode):
            keys = set[str]()
            for key, value in node.value:
                if isinstance(key, yaml.ScalarNode) and key.value in keys:
                    problem = f"found {key.value!r} twice"
                    raise ConstructorError(None, None, problem, key.start_mark)
                keys.add(str(key.value))
                inner += key, value
        own = len(node.value) if isinstance(node, yaml.ScalarNode) else 0
        known[node] = 1 + own + sum(_length(it, known) for it in inner)
    return known[node]
