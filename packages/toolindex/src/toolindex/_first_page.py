"""Reading the file of irreplaceable data when its first page is damaged.

That page says where each table begins, so without it SQLite finds nothing. The tables begin at the
same pages as in a new file (see `kept.sql`), whose first page can therefore replace it.
"""

from __future__ import annotations

import shutil
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING

import apsw

from toolindex._header import pages_of
from toolindex._migrations import sql_of
from toolindex._opening import PAGE_BYTES
from toolindex._parts import KEPT, beside

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

# See https://sqlite.org/fileformat.html#the_database_header
_FORMATS, _WAL = slice(18, 20), bytes((2, 2))
_PAGE_COUNT = slice(28, 32)


@contextmanager
def with_new_first_page(file: Path) -> Generator[Path]:
    """Provide a copy of the file with the first page of a new one."""
    copy = file.with_name(f"{file.name}.copy")
    copies = copy, *beside(copy)
    for old in copies:
        old.unlink(missing_ok=True)
    try:
        count = 1
        with copy.open("wb") as target:
            target.seek(PAGE_BYTES)
            for page in pages_of(file, PAGE_BYTES, start=1):
                target.write(page)
                count += 1
            target.seek(0)
            target.write(_first_page(count))
        with suppress(FileNotFoundError):
            shutil.copyfile(beside(file)[0], beside(copy)[0])
        yield copy
    finally:
        for each in copies:
            each.unlink(missing_ok=True)


def _first_page(count: int) -> bytes:
    with closing(apsw.Connection(":memory:")) as empty:
        empty.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        empty.execute(sql_of(KEPT.sql))
        page = bytearray(empty.serialize("main")[:PAGE_BYTES])
    page[_FORMATS] = _WAL
    page[_PAGE_COUNT] = count.to_bytes(4, "big")
    return bytes(page)
