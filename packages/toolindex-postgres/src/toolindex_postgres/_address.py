"""The address of an index on a server, shown without its password, and the store at it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from toolindex import ToolStore

    from toolindex_postgres._database import Database
    from toolindex_postgres._store import SharedStore

_TREE = "tree="
_LONGEST_TREE = 200
# A path library may have merged the two slashes.
_SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.IGNORECASE)
_SCHEMES = frozenset({"postgres", "postgresql"})
# Strict, because any part of other text might be a password.
_HOST = r"(?:\[[^\]@/?#\s]*\]|[^\[\]:,@/?#\s]*)(?::\d*)?"
_ADDRESS = re.compile(
    r"(?:(?P<user>[^:@/?#\s]*)(?::(?P<password>[^@/?#\s]*))?@)?"
    rf"(?P<place>{_HOST}(?:,{_HOST})*(?:/[^/?#\s]*)?)(?:\?(?P<query>[^#\s]*))?"
)
# libpq's parameters with secrets.
SECRET = re.compile("pass|secret|scram_", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """A PostgreSQL database with an index, and the name of a tree in it.

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
    def parse(cls, text: str) -> Address:
        """Parse an address like `postgresql://user@host/db?tree=NAME`.

        Raises:
            ValueError: It is not such an address; the message does not quote it.
        """
        scheme = _SCHEME.match(text)
        if scheme is None:
            raise ValueError(
                "an address of a server is written postgresql://user@host/db?tree=NAME"
            )
        if (name := scheme[1].lower()) not in _SCHEMES:
            if name.partition("+")[0] in _SCHEMES:
                raise ValueError("an address begins with postgresql://")
            if name in {"sqlite", "file"}:
                raise ValueError("give the path itself, without anything before it")
            raise ValueError(
                "an index is a file, or is on a PostgreSQL server: give a path or postgresql://…"
            )
        # After two slashes, a third one begins the name of a database.
        start = min(scheme.end(), scheme.end(1) + len("://"))
        match = _ADDRESS.fullmatch(text[start:])
        if match is None:
            raise ValueError(
                "it is not an address; write postgresql://user@host/db?tree=NAME, and special "
                "characters in a name or password in percent encoding (an @ as %40, a space as %20)"
            )
        given = [part for part in (match["query"] or "").split("&") if part]
        trees = [unquote(part[len(_TREE) :]) for part in given if part.startswith(_TREE)]
        theirs = [part for part in given if not part.startswith(_TREE)]
        harmless = [it for it in theirs if not SECRET.search(unquote(it.partition("=")[0]))]
        user, place = match["user"] or "", match["place"]
        password = f":{match['password']}" if match["password"] else ""
        account = f"{user}{password}@" if user or password else ""
        address = cls(
            url=f"postgresql://{account}{place}{_query(theirs)}",
            shown=f"postgresql://{user}{'@' * bool(user)}{place}{_query(harmless)}",
        )
        for tree in trees:
            address = address.of(tree)
        return address

    def of(self, tree: str) -> Address:
        """Return the same database with the name of a tree; raise ValueError for an invalid one."""
        if not 0 < len(tree) <= _LONGEST_TREE or not tree.isprintable() or tree != tree.strip():
            raise ValueError(f"a tree needs a name of 1 to {_LONGEST_TREE} printable characters")
        if tree == "*":
            # Grants use it for all trees.
            raise ValueError("a tree cannot be named *")
        return replace(self, tree=tree)

    def open(self, copy: ToolStore, *, read_only: bool = False) -> SharedStore:
        """Open the tree as a store; arguments and errors are those of `SharedStore`.

        If it cannot be opened, the copy is closed.
        """
        from toolindex_postgres._store import SharedStore

        try:
            return SharedStore(copy, self.url, tree=self.tree, read_only=read_only)
        except BaseException:
            copy.close()
            raise

    def database(self) -> Database:
        """Return the database, for its owner's tasks and for checking it."""
        from toolindex_postgres._database import Database

        return Database(self.url)

    def __str__(self) -> str:
        if not self.tree:
            return self.shown
        sign = "&" if "?" in self.shown else "?"
        return f"{self.shown}{sign}{_TREE}{quote(self.tree, safe='/')}"


def _query(parameters: list[str]) -> str:
    return f"?{'&'.join(parameters)}" if parameters else ""
