"""The address of an index on a PostgreSQL server, shown without its password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    import os

_TREE = "tree="
_LONGEST_TREE = 200
_SCHEME = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]+):(?P<slashes>//?)(?!\\)", re.IGNORECASE)
_SCHEMES = frozenset({"postgres", "postgresql"})
# A misspelt address, or libpq's keywords, must not become a file with a password in its name.
_MEANT = re.compile(
    r"\s*(postgres(ql)?(:/|//)|(host|hostaddr|dbname|user|password)\s*=)|.*\spassword\s*="
    r"|.*\?(.*&)?tree=|[^/\s]+@[^/\s]+/[^/.\s]+$",
    re.IGNORECASE | re.DOTALL,
)
# Strict, because any part of other text might be a password.
_HOST = r"(?:\[[^\]@/?#\s]*\]|[^\[\]:,@/?#\s]*)(?::\d*)?"
_ADDRESS = re.compile(
    r"(?:(?P<user>[^:@/?#\s]*)(?::(?P<password>[^@/?#\s]*))?@)?"
    rf"(?P<place>{_HOST}(?:,{_HOST})*(?:/[^/?#\s]*)?)(?:\?(?P<query>[^#\s]*))?"
)
# libpq's parameters with secrets.
_SECRET = re.compile("password|secret|scram_", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Server:
    """A PostgreSQL database with an index, and the name of the tree in it.

    As text, for people and logs, it has no password.

    Attributes:
        url: The address for libpq, including any password.
        shown: The address without passwords.
        tree: The name of the tree; empty if the address has none.
    """

    url: str = field(repr=False)
    shown: str
    tree: str = ""

    @classmethod
    def parse(cls, text: str) -> Server:
        """Parse an address like `postgresql://user@host/db?tree=NAME`; errors do not quote it."""
        scheme, _, rest = text.partition("://")
        match = _ADDRESS.fullmatch(rest)
        if scheme.lower() not in _SCHEMES or match is None:
            raise ValueError(
                "it is not an address; write postgresql://user@host/db?tree=NAME, and special "
                "characters in a name or password in percent encoding (an @ as %40, a space as %20)"
            )
        given = [part for part in (match["query"] or "").split("&") if part]
        named = [unquote(part[len(_TREE) :]) for part in given if part.startswith(_TREE)]
        for name in named:
            _check_tree(name)
        theirs = [part for part in given if not part.startswith(_TREE)]
        user, place = match["user"] or "", match["place"]
        password = f":{match['password']}" if match["password"] else ""
        account = f"{user}{password}@" if user or password else ""
        return cls(
            url=f"postgresql://{account}{place}{_query(theirs)}",
            shown=f"postgresql://{user}{'@' * bool(user)}{place}{_query(_harmless(theirs))}",
            tree=named[-1] if named else "",
        )

    def of(self, tree: str) -> Server:
        """Return the same database with the name of a tree; raise ValueError for an invalid one."""
        _check_tree(tree)
        return replace(self, tree=tree)

    def __str__(self) -> str:
        if not self.tree:
            return self.shown
        sign = "&" if "?" in self.shown else "?"
        return f"{self.shown}{sign}{_TREE}{quote(self.tree, safe='/')}"


def parsed_database(value: object) -> object:
    """Return a server for an address, and any other value of the setting `database` unchanged."""
    if not isinstance(value, str | Path):
        return value
    text = str(value)
    match = _SCHEME.match(text)
    if match is None:
        if _MEANT.match(text):
            raise ValueError(
                "an address of a server is written postgresql://user@host/db?tree=NAME"
            )
        return value
    if match["scheme"].lower() in _SCHEMES:
        # pathlib merges two slashes.
        return Server.parse(re.sub(":/+", "://", text, count=1))
    if match["slashes"] == "/":
        return value
    kind = match["scheme"].lower().partition("+")[0]
    if kind in _SCHEMES:
        raise ValueError("an address begins with postgresql://")
    if kind in {"sqlite", "file"}:
        raise ValueError("give the path itself, without anything before it")
    raise ValueError(
        "an index is a file, or is on a PostgreSQL server: give a path or postgresql://…"
    )


def is_address(value: str | os.PathLike[str]) -> bool:
    """Return whether a value of the setting is an address rather than a path."""
    match = _SCHEME.match(str(value))
    return match is not None and (match["slashes"] == "//" or match["scheme"].lower() in _SCHEMES)


def _check_tree(tree: str) -> None:
    if not 0 < len(tree) <= _LONGEST_TREE or not tree.isprintable() or tree != tree.strip():
        raise ValueError(f"a tree needs a name of 1 to {_LONGEST_TREE} printable characters")
    if tree == "*":
        # Grants use it for all trees.
        raise ValueError("a tree cannot be named *")


def _harmless(parameters: list[str]) -> list[str]:
    return [it for it in parameters if not _SECRET.search(unquote(it.partition("=")[0]))]


def _query(parameters: list[str]) -> str:
    return f"?{'&'.join(parameters)}" if parameters else ""
