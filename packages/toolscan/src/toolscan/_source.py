"""Reading a file once and safely, inside its root, and parsing it into a syntax tree."""

from __future__ import annotations

import ast
import codecs
import errno
import inspect
import os
import re
import stat
import time
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, cast

from toolscan._records import Rejection, Stamp

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

MAX_FILE_SIZE = 2 * 1024 * 1024
"""Larger files are not read: parsing takes up to five hundred times their size in memory."""

# An edit within one tick of the file system's clock does not change the stamp. The coarsest clock
# in use (FAT) ticks every two seconds, so a younger file gets no stamp and is read again next time.
_CLOCK_TICK_NS = 2_000_000_000

# A FIFO must not block, a terminal must not control us, and Windows must not translate newlines.
_WANTED = ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT")
_OPEN_FLAGS = os.O_RDONLY | sum(int(getattr(os, name, 0)) for name in _WANTED)

_READ_ATTEMPTS = 3

# PEP 263: in the first line, or in the second if the first is blank or a comment.
_COOKIE = rb"(?:[ \t\f]*(?:#[^\r\n]*)?(?:\r\n|\r|\n))??[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)"
# Not text encodings: they decode in quadratic time, and are never used for source code.
_NOT_FOR_SOURCE = frozenset({"idna", "punycode"})

# The file name for compiling, by which warnings about tools' sources can be recognised.
_FILENAME = "<toolscan>"
# Compiler warnings, which become syntax errors if warnings are errors.
_WARNED = r"invalid (?:octal )?escape|invalid \w+ literal"
_PYTHON_2 = r"Missing parentheses in call to '(print|exec)'|multiple exception types|leading zeros"


def outside_root() -> Rejection:
    return Rejection(
        "outside_root",
        "A symbolic link leads out of the root here: move its target into the root, or allow "
        "outside links.",
    )


def leads_outside(path: str, inside: str) -> bool:
    return not _lies_in(os.path.realpath(path), inside)


def refuse_opened_outside(fd: int, path: str, inside: str) -> None:
    """Reject an open file outside a folder, even if the path to it changes meanwhile.

    Raises:
        OSError: The file has been moved since it was opened.
        Rejection: The file is outside.
    """
    try:
        real = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115  (a str all along)
    except OSError:
        # Not on Linux: resolve the path again, which must lead to the open file.
        real = os.path.realpath(path)
        if not os.path.samestat(os.lstat(real), os.fstat(fd)):
            raise FileNotFoundError(path) from None
    if not _lies_in(real, inside):
        raise outside_root()


def _lies_in(real: str, folder: str) -> bool:
    return real == folder or real.startswith(folder.rstrip(os.sep) + os.sep)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The bytes of a file, and the stamp of exactly these bytes."""

    data: bytes
    stamp: Stamp | None


def read_source(path: str, *, inside: str | None = None) -> Source:
    """Read a regular file once.

    The stamp is that of the opened file, taken before and after reading. A file that changes
    meanwhile is read again; if it keeps changing, its stamp is `None`.

    Args:
        path: The file.
        inside: The real path of a folder that must contain the file, wherever links lead. The
            opened file is checked, not its path.

    Raises:
        Rejection: It is not a regular file, too large, outside, or unreadable.
    """
    began_ns = time.time_ns()
    try:
        _require_regular(os.stat(path))  # noqa: PTH116  (opening a device can do something)
        fd = os.open(path, _OPEN_FLAGS)
        try:
            if inside is not None:
                refuse_opened_outside(fd, path, inside)
            data, stamp = _read_at_rest(fd)
        finally:
            os.close(fd)
    except OSError as error:
        raise rejection_of(error, path) from error
    if stamp and max(stamp[1:3]) + _CLOCK_TICK_NS >= began_ns:
        stamp = None
    return Source(data=data, stamp=stamp)


def _read_at_rest(fd: int) -> tuple[bytes, Stamp | None]:
    for _ in range(_READ_ATTEMPTS):
        before = os.fstat(fd)
        data = _read_all(fd, before)
        stamp = stamp_of(os.fstat(fd))
        if stamp == stamp_of(before) and len(data) == stamp[0]:
            return data, stamp
    return _read_all(fd, os.fstat(fd)), None


def stamp_of(status: os.stat_result) -> Stamp:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def rejection_of(error: OSError, path: str) -> Rejection:
    if error.errno == errno.ELOOP:
        return Rejection("symlink_loop", "The symbolic link leads back to itself.")
    if isinstance(error, FileNotFoundError):
        if os.path.islink(path):  # noqa: PTH114  (a str all along: paths may not be UTF-8)
            return Rejection("broken_link", "The symbolic link points to nothing.")
        return Rejection("vanished", "The file does not exist, or no longer exists.")
    why = error.strerror or type(error).__name__
    return Rejection("unreadable", f"It cannot be read: {why}.")


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a pipe, a socket or a device"
        raise Rejection("not_a_file", f"It is {kind}, not a file.")


def _read_all(fd: int, status: os.stat_result) -> bytes:
    _require_regular(status)
    os.lseek(fd, 0, os.SEEK_SET)
    room = MAX_FILE_SIZE + 1
    chunks: list[bytes] = []
    if status.st_size < room:
        left = status.st_size or -1
        while room and left and (chunk := os.read(fd, min(room, status.st_size + 1))):
            chunks.append(chunk)
            room -= len(chunk)
            # One byte more than the size was requested: if exactly the size came, it has ended.
            left -= len(chunk)
    if status.st_size > MAX_FILE_SIZE or not room:
        limit = MAX_FILE_SIZE // (1024 * 1024)
        raise Rejection("too_large", f"It is larger than the limit of {limit} MiB.")
    return b"".join(chunks)


def hash_bytes(data: bytes) -> str:
    # Imported here because OpenSSL takes a tenth of this package's import time.
    from hashlib import sha256

    return sha256(data).hexdigest()


def decode(data: bytes) -> str:
    r"""Decode source bytes as Python does, with newlines as `\n`.

    Raises:
        Rejection: They are empty, or not text in the encoding that they declare.
    """
    if b"\0" in data:
        raise Rejection("nul_bytes", "It contains NUL bytes; it may be binary or UTF-16.")
    encoding = "utf-8"
    if data.startswith(codecs.BOM_UTF8):
        data = data[len(codecs.BOM_UTF8) :]
    elif cookie := re.match(_COOKIE, data):
        encoding = cookie[1].decode("ascii", "replace")
    try:
        if codecs.lookup(encoding).name in _NOT_FOR_SOURCE:
            raise LookupError(encoding)
        text = data.decode(encoding)
    except UnicodeError as error:
        start = error.start if isinstance(error, UnicodeDecodeError) else 0
        line = data.count(b"\n", 0, start) + 1
        detail = f"Line {line}: Its bytes are not {encoding}: {error}."
        raise Rejection("encoding", detail) from error
    except LookupError as error:
        raise Rejection("encoding", f"It declares an unknown encoding: {encoding}.") from error
    if not text or text.isspace():
        raise Rejection("empty", "It is empty.")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def refuse_surrogates(texts: Iterable[str]) -> None:
    try:
        "\0".join(texts).encode()
    except UnicodeEncodeError as error:
        detail = (
            f"Its text contains {error.object[error.start]!r}, which a UTF-8 file cannot contain."
        )
        raise Rejection("surrogate", detail) from error


def parse(text: str) -> ast.Module:
    try:
        tree = cast("ast.Module", _compile(text, "exec"))
    except SyntaxError as error:
        raise _syntax_rejection(error) from error
    except (RecursionError, MemoryError) as error:
        raise Rejection("too_deep", "It is nested too deeply to be parsed.") from error
    except ValueError as error:  # lone surrogates, which some encodings can produce
        raise Rejection("surrogate", f"It cannot be parsed: {error}.") from error
    if "#:" in text:
        _document(tree, text.split("\n"))
    return tree


def _document(tree: ast.Module, lines: list[str]) -> None:
    """Turn the comments that document fields (`#: …`) into strings below them."""
    for found in ast.walk(tree):
        if not isinstance(found, ast.ClassDef):
            continue
        body: list[ast.stmt] = []
        for node in found.body:
            body.append(node)
            if isinstance(node, ast.AnnAssign) and (comment := _comment(node, lines)):
                body.append(ast.copy_location(ast.Expr(ast.Constant(comment)), node))
        found.body = body


def _comment(node: ast.stmt, lines: list[str]) -> str:
    """Return the comment that documents a field: on its last line, or above it."""
    last = lines[(node.end_lineno or node.lineno) - 1].encode()[node.end_col_offset :].decode()
    if last.lstrip().startswith("#:"):
        return last.lstrip()[2:].strip()
    number = node.lineno - 1
    above: list[str] = []
    while number and lines[number - 1].lstrip().startswith("#:"):
        number -= 1
        above.insert(0, lines[number].lstrip()[2:].strip())
    return " ".join(above)


def parse_expression(text: str) -> ast.expr | None:
    """Return the tree of an expression; `None` if the text is not one."""
    try:
        tree = _compile(text.strip(), "eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return cast("ast.Expression", tree).body


# CPython 3.11 and 3.12.0 share a depth counter between threads, and raise a SystemError if two
# threads parse at the same time (gh-106905).
_PARSING = Lock()


def _compile(text: str, mode: str, attempts: int = 5) -> ast.AST:
    try:
        with _PARSING, _without_warnings():
            tree = compile(text, _FILENAME, mode, ast.PyCF_ONLY_AST, dont_inherit=True)
    except SystemError:
        # Other code is parsing in another thread.
        if attempts == 1:
            raise
        return _compile(text, mode, attempts - 1)
    except SyntaxError as error:
        # Another thread may have added a filter before ours.
        if attempts == 1 or not re.search(_WARNED, error.msg):
            raise
        return _compile(text, mode, attempts - 1)
    return tree


def _syntax_rejection(error: SyntaxError) -> Rejection:
    if error.msg.startswith("too many"):
        return Rejection("too_deep", f"Line {error.lineno}: {error.msg}.")
    hint = " It looks like Python 2." if re.search(_PYTHON_2, error.msg) else ""
    return Rejection("syntax_error", f"Line {error.lineno}: {error.msg}.{hint}")


@contextmanager
def _without_warnings() -> Generator[None]:
    """Keep the compiler from printing warnings about invalid escapes.

    Not by `catch_warnings`, which replaces the filters for all threads: this filter matches nothing
    but our own file name, and is the only one that is removed again.
    """
    filters = cast("list[object]", warnings.filters)
    ours = ("ignore", None, Warning, re.compile(_FILENAME), 0)
    filters.insert(0, ours)
    try:
        yield
    finally:
        with suppress(ValueError):  # another thread may have removed all
            filters.remove(ours)


_MAX_DESCRIPTION = 100_000
"""The maximum number of characters of a docstring; the rest is cut off."""

Function = ast.FunctionDef | ast.AsyncFunctionDef
# In a signature, these need parentheses.
_IN_PARENTHESES = (ast.NamedExpr, ast.Yield, ast.YieldFrom)


class Statement(NamedTuple):
    """A statement at the top level of a module, and its context."""

    node: ast.stmt
    conditional: bool
    for_type_checkers: bool


_COMPOUND = ast.If | ast.Match | ast.Try | ast.TryStar | ast.With | ast.AsyncWith
_LOOPS = ast.For | ast.AsyncFor | ast.While


def top_level(body: list[ast.stmt]) -> list[Statement]:
    """Return the statements that run when the module is imported, in the order of the source.

    Branches of `if`, `try`, `with`, loops and `match` are included; bodies of functions and classes
    are not. Not recursive, because a chain of a thousand `elif` is a thousand levels deep.
    """
    statements: list[Statement] = []
    pending = [Statement(node, False, False) for node in reversed(body)]
    while pending:
        statement = pending.pop()
        if isinstance(statement.node, _COMPOUND | _LOOPS):
            pending += reversed(_inner(statement))
        else:
            statements.append(statement)
    return statements


def _inner(statement: Statement) -> list[Statement]:
    node, _, typing_only = statement
    inner: list[Statement] = []
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        is_checked = name == "body" and isinstance(node, ast.If) and _is_type_checking(node.test)
        parts: list[ast.AST] = getattr(node, name, [])
        for part in parts:
            body = part.body if isinstance(part, ast.ExceptHandler | ast.match_case) else [part]
            inner += [
                Statement(cast("ast.stmt", it), True, typing_only or is_checked) for it in body
            ]
    return inner


def _is_type_checking(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", None)
    return name == "TYPE_CHECKING"


def docstring(body: list[ast.stmt]) -> str:
    if body and (text := string_statement(body[0])):
        text = text[:_MAX_DESCRIPTION]
        # Most docstrings of fields are a single line, which has no indentation to remove.
        if (line := text.strip()).isprintable():
            return line
        # Cut before cleaning, which is slow for long texts, and after, because it expands tabs.
        return inspect.cleandoc(text).strip()[:_MAX_DESCRIPTION].rstrip()
    return ""


def string_statement(node: ast.stmt) -> str | None:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        text = node.value.value
        return text if isinstance(text, str) else None
    return None


class ModuleText:
    """The text of a module, to be cut at positions in its syntax tree."""

    __slots__ = ("_encoded", "lines")

    def __init__(self, text: str) -> None:
        # The parser counts lines like this; str.splitlines also splits at form feeds and others.
        self.lines = text.split("\n")
        self._encoded: dict[int, bytes] = {}

    def written(self, node: ast.expr) -> str:
        """Return an expression as written, but on one line."""
        if node.lineno != node.end_lineno:
            return one_line(node)
        text = self._cut(node.lineno, node.col_offset, node.end_col_offset)
        return f"({text})" if isinstance(node, _IN_PARENTHESES) else text

    def block(self, node: ast.stmt) -> str:
        """Return the text of a statement with its decorators.

        The first and last lines are cut at columns, because they may contain other statements.
        """
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        start = node.col_offset if first == node.lineno else 0
        last, end = node.end_lineno or node.lineno, node.end_col_offset
        if "#:" in self.lines[last - 1] and self._cut(last, end or 0, None).lstrip()[:2] == "#:":
            end = None  # this comment describes the last field of a class
        if first == last:
            return self._cut(first, start, end)
        between = self.lines[first : last - 1]
        ends = self._cut(first, start, None), self._cut(last, 0, end)
        return "\n".join([ends[0], *between, ends[1]])

    def _cut(self, number: int, start: int, end: int | None) -> str:
        line = self.lines[number - 1]
        # Offsets count UTF-8 bytes.
        if line.isascii():
            return line[start:end]
        if number not in self._encoded:
            self._encoded[number] = line.encode()
        return self._encoded[number][start:end].decode()


def one_line(node: ast.AST) -> str:
    try:
        return " ".join(ast.unparse(node).split("\n"))
    except ValueError as error:  # hexadecimal numbers may have more digits than Python writes
        detail = "It contains a number with too many digits to be written out."
        raise Rejection("too_large", detail) from error
