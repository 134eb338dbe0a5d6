"""An index whose pages are stored elsewhere: here, in memory."""

from contextlib import ExitStack, contextmanager
from itertools import count
from threading import Lock

from toolindex import empty_pages
from toolindex.testing import check_store

from .sqlite_store import SQLiteStore


class View:
    def __init__(self, pages):
        self.pages = list(pages)
        self.held = set()

    def size(self):
        return len(self.pages)

    def read(self, number):
        return self.pages[number]

    def holds(self, number):
        return number in self.held

    def fetch(self, numbers):
        self.held.update(numbers)

    def write(self, number, page):
        self.pages += [bytes(len(page))] * (number + 1 - len(self.pages))
        self.pages[number] = page

    def cut(self, size):
        del self.pages[size:]


class MemoryPages:
    read_only = False

    def __init__(self):
        self.epoch = 0
        self._kept = empty_pages()
        self._lock = Lock()

    @contextmanager
    def reading(self):
        yield View(self._kept)

    @contextmanager
    def writing(self):
        with self._lock:
            view = View(self._kept)
            try:
                yield view
            except BaseException:
                self.epoch += 1
                raise
            self._kept = tuple(view.pages)


def test_an_index_whose_pages_are_elsewhere_keeps_the_contract(tmp_path, patient):
    numbers = count(1)
    pages_of = {}

    def opened(pages):
        store = SQLiteStore(tmp_path / f"{next(numbers)}.db", pages=pages)
        pages_of[store] = pages
        return store

    @contextmanager
    def new():
        with ExitStack() as stack:
            store = opened(MemoryPages())
            stack.callback(store.close)
            yield store

    check_store(new)
