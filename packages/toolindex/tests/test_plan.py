"""Planning is a pure function of what is stored and what was scanned."""

from functools import partial

import pytest
from toolindex import StoredFiles
from toolindex._rows import stamp_columns
from toolindex._sync import SyncPlan
from toolscan import ScanReport

A, B, C = "mcptools:mail:send", "mcptools:mail:read", "gentools:pdf:merge"
STAMP = (1, 2, 3, 2**64 - 1)


@pytest.fixture
def make_record(make_record):
    """Return a function that makes records with a trusted stamp by default."""
    return partial(make_record, stamp=STAMP)


@pytest.fixture
def stored():
    """The contents of an index after a sync of these records."""

    def files(*records, **state):
        rows = [(r.path, str(r.id), r.file_hash, *stamp_columns(r.stamp)) for r in records]
        return StoredFiles(rows=rows, generation=1, **state)

    return files


def test_a_reread_scans_skipped_files_again(make_record, stored):
    """Another reader wrote the entry after the scan had skipped its file."""
    record = make_record(A, stamp=STAMP)
    plan = stored(record, is_current=False).plan(ScanReport(unchanged=(record.path,)))
    assert plan == SyncPlan(unchanged=1, rescan=(record.path,))


@pytest.mark.parametrize(
    ("within", "removed"),
    [
        (None, (C, B, A)),
        ([], ()),
        (["mcptools/mail/send.py"], (A,)),
        (["mcptools/mail"], (B, A)),
        (["mcptools/mail/"], (B, A)),
        (["mcptools"], (B, A)),
        (["mcptools/ma"], ()),
        (["gentools", "mcptools/mail/read.py"], (C, B)),
        (["."], (C, B, A)),
        ([""], (C, B, A)),
    ],
)
def test_only_tools_within_the_scanned_paths_are_removed(make_record, stored, within, removed):
    files = stored(make_record(A), make_record(B), make_record(C), within=within)
    assert files.plan(ScanReport()) == SyncPlan(removed=removed)


def test_tools_of_one_file_are_identified_by_its_path(make_record, stored):
    one, two = (make_record(f"functions:a:{name}", path="a.py") for name in ("one", "two"))

    assert stored(one, two).plan(ScanReport(unchanged=("a.py",))) == SyncPlan(unchanged=2)
    assert stored(one, two).plan(ScanReport(records=(one,))) == SyncPlan(
        removed=("functions:a:two",), unchanged=1
    )


def test_the_tools_of_a_file_that_was_moved_are_paired_by_name(make_record, stored):
    before, after = (
        [
            make_record(f"functions:{at}:{name}", path=f"{at}.py", file_hash="same")
            for name in ("one", "two")
        ]
        for at in ("a", "b")
    )

    plan = stored(*before).plan(ScanReport(records=tuple(after)))

    assert plan.moved == tuple(
        (str(old.id), new.text_hash) for old, new in zip(before, after, strict=True)
    )
