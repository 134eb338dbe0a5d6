"""After any changes of the files, the mirror ends up equal to the disk."""

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
OPERATIONS = st.one_of(
    st.tuples(st.just("write"), PATHS, NAMES),
    st.tuples(st.just("mkdir"), PATHS, NAMES),
    st.tuples(st.just("remove"), PATHS, NAMES),
    st.tuples(st.just("move"), PATHS, PATHS),
    st.tuples(st.just("park"), PATHS, NAMES),
    st.tuples(st.just("unpark"), PATHS, NAMES),
    st.tuples(st.just("link"), PATHS, PATHS),
    st.tuples(st.just("pause"), PATHS, NAMES),
)


def perform(root, elsewhere, kind, path, other):
    place = root / path
    with suppress(OSError, shutil.Error):
        if kind == "write":
            (place / f"{other}.py").write_text(other)
        elif kind == "mkdir":
            (place / other).mkdir(parents=True)
        elif kind == "remove" and place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        elif kind == "remove":
            place.unlink()
        elif kind == "move":
            place.rename(root / other)
        elif kind == "park":
            place.rename(elsewhere / other)
        elif kind == "unpark":
            (elsewhere / other).rename(place)
        elif kind == "link":
            place.symlink_to(root / other, target_is_directory=True)


@pytest.mark.usefixtures("soon")
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(operations=st.lists(OPERATIONS, min_size=5, max_size=40))
def test_after_any_sequence_of_operations_the_mirror_equals_the_disk(mirroring, operations):
    async def scenario(above):
        root, elsewhere = above / "root", above / "elsewhere"
        root.mkdir()
        elsewhere.mkdir()
        async with mirroring(root) as mirror:
            for kind, path, other in operations:
                perform(root, elsewhere, kind, path, other)
                if kind == "pause":
                    await mirror.equals_disk()
            await mirror.equals_disk()
            (root / "last.py").write_text("x")
            await mirror.has("last.py")
            await mirror.equals_disk()

    with tempfile.TemporaryDirectory() as above:
        asyncio.run(scenario(Path(above)))
