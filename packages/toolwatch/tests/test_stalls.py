"""A machine that stalls for a while changes neither what is found nor how soon."""

from types import SimpleNamespace

import pytest
from toolwatch import _tree
from toolwatch._content import Content
from toolwatch._tree import Tree


class Clock:
    """A clock that only the test moves, and that can jump during a call."""

    def __init__(self, monkeypatch):
        self.now = 1000.0
        self._patch = monkeypatch
        module = SimpleNamespace(monotonic=lambda: self.now, thread_time=lambda: 0.0)
        monkeypatch.setattr(_tree, "time", module)

    def stall_during(self, owner, name, *stalls):
        """Let the next calls of a function take this many seconds, one after the other."""
        called, left = getattr(owner, name), list(stalls)

        def slow(*arguments):
            self.now += left.pop(0) if left else 0.0
            return called(*arguments)

        self._patch.setattr(owner, name, slow)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def tree(root, tmp_path, clock):
    """A root with a link, and a file that has another name outside."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
    (tmp_path / "new" / "tool.py").write_text("x")
    (tmp_path / "middle").symlink_to("old")
    (root / "linked").symlink_to(tmp_path / "middle")
    (root / "tool.py").write_text("x")
    (tmp_path / "other_name.py").hardlink_to(root / "tool.py")
    made = Tree(str(root), lambda: None)
    yield made
    made.close()


@pytest.fixture
def change(tmp_path):
    """Change the file through its other name, which the system does not report."""

    def write():
        other = tmp_path / "other_name.py"
        other.write_text(other.read_text() + "x")

    return write


def test_a_stall_while_links_are_checked_does_not_delay_the_next_check(tree, clock, tmp_path):
    clock.stall_during(_tree, "_identity", 60)
    for _ in range(2):
        assert tree.collect(clock.now).paths == set()
    # The system does not report this, and the next full scan is seconds away.
    (tmp_path / "new_middle").symlink_to("new")
    (tmp_path / "new_middle").replace(tmp_path / "middle")
    assert tree.collect(clock.now + 1).paths == {"linked/tool.py"}


def test_a_stall_during_a_full_scan_does_not_delay_the_next_one(tree, clock, change):
    clock.stall_during(Content, "look_through", 60)
    assert tree.collect(clock.now + 6).paths == set()
    change()
    assert tree.collect(clock.now + 6).paths == {"tool.py"}


def test_scans_that_always_take_long_take_at_most_a_hundredth_of_the_time(tree, clock, change):
    clock.stall_during(Content, "look_through", 1, 1)
    for _ in range(2):
        assert tree.collect(clock.now + 6).paths == set()
        clock.now += 6
    change()
    assert tree.collect(clock.now + 90).paths == set()
    assert tree.collect(clock.now + 110).paths == {"tool.py"}


def test_a_report_counts_as_missing_only_if_there_was_time_for_it(tree, clock, change):
    tree.collect(clock.now + 6)
    change()
    assert tree.collect(clock.now + 12).paths == {"tool.py"}
    # The machine has stalled meanwhile, and with it the thread that would bring the report.
    tree.collect(clock.now + 50)
    assert not tree.polling
    tree.collect(clock.now + 51)
    assert not tree.polling
    tree.collect(clock.now + 52.1)
    assert tree.polling
