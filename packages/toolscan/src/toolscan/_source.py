"""Reading a file once and safely, inside its root, and parsing it."""

from __future__ import annotations

import ast
import codecs
import errno
import os
import re
import stat
import time
import warnings
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, cast

from toolscan._issues import Reason, Rejection
from toolscan._records import FileStamp

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
    """Return a rejection for a link that leads out of the root, with what to do about it."""
    return Rejection(
        Reason.OUTSIDE_ROOT,
        "A symbolic link leads out of the root here: move its target into the root, or allow "
        "outside links.",
    )


def leads_outside(path: str, inside: str) -> bool:
    """Return whether a path leads out of the folder with a given real path."""
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
    stamp: FileStamp | None


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
    if stamp and max(stamp.mtime_ns, stamp.ctime_ns) + _CLOCK_TICK_NS >= began_ns:
        stamp = None
    return Source(data=data, stamp=stamp)


def _read_at_rest(fd: int) -> tuple[bytes, FileStamp | None]:
    for _ in range(_READ_ATTEMPTS):
        before = os.fstat(fd)
        data = _read_all(fd, before)
        stamp = stamp_of(os.fstat(fd))
        if stamp == stamp_of(before) and len(data) == stamp.size:
            return data, stamp
    return _read_all(fd, os.fstat(fd)), None


def stamp_of(status: os.stat_result) -> FileStamp:
    """Return the stamp from a result of `os.stat`."""
    return FileStamp(
        size=status.st_size,
        mtime_ns=status.st_mtime_ns,
        ctime_ns=status.st_ctime_ns,
        inode=status.st_ino,
    )


def rejection_of(error: OSError, path: str) -> Rejection:
    """Explain why the operating system refused a path."""
    if error.errno == errno.ELOOP:
        return Rejection(Reason.SYMLINK_LOOP, "The symbolic link leads back to itself.")
    if isinstance(error, FileNotFoundError):
        if os.path.islink(path):  # noqa: PTH114  (a str all along: paths may not be UTF-8)
            return Rejection(Reason.BROKEN_LINK, "The symbolic link points to nothing.")
        return Rejection(Reason.VANISHED, "The file does not exist, or no longer exists.")
    why = error.strerror or type(error).__name__
    return Rejection(Reason.UNREADABLE, f"It cannot be read: {why}.")


def _require_regular(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a pipe, a socket or a device"
        raise Rejection(Reason.NOT_A_FILE, f"It is {kind}, not a file.")


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
        raise Rejection(Reason.TOO_LARGE, f"It is larger than the limit of {limit} MiB.")
    return b"".join(chunks)


def decode(data: bytes) -> str:
    r"""Decode source bytes as Python does, with newlines as `\n`.

    Raises:
        Rejection: They are empty, or not text in the encoding that they declare.
    """
    if b"\0" in data:
        raise Rejection(Reason.NUL_BYTES, "It contains NUL bytes; it may be binary or UTF-16.")
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
        raise Rejection(Reason.ENCODING, detail) from error
    except LookupError as error:
        raise Rejection(Reason.ENCODING, f"It declares an unknown encoding: {encoding}.") from error
    if not text or text.isspace():
        raise Rejection(Reason.EMPTY, "It is empty.")
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def refuse_surrogates(texts: Iterable[str]) -> None:
    """Reject lone surrogates, which no database or JSON text can contain."""
    try:
        "\0".join(texts).encode()
    except UnicodeEncodeError as error:
        detail = (
            f"Its text contains {error.object[error.start]!r}, which a UTF-8 file cannot contain."
        )
        raise Rejection(Reason.SURROGATE, detail) from error


def parse(text: str) -> ast.Module:
    """Return the syntax tree of a module, without running it."""
    try:
        tree = cast("ast.Module", _compile(text, "exec"))
    except SyntaxError as error:
        raise _syntax_rejection(error) from error
    except (RecursionError, MemoryError) as error:
        raise Rejection(Reason.TOO_DEEP, "It is nested too deeply to be parsed.") from error
    except ValueError as error:  # lone surrogates, which some encodings can produce
        raise Rejection(Reason.SURROGATE, f"It cannot be parsed: {error}.") from error
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
        return Rejection(Reason.TOO_DEEP, f"Line {error.lineno}: {error.msg}.")
    hint = " It looks like Python 2." if re.search(_PYTHON_2, error.msg) else ""
    return Rejection(Reason.SYNTAX_ERROR, f"Line {error.lineno}: {error.msg}.{hint}")


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
