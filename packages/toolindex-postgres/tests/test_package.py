"""The package as its users see it."""

import os
import subprocess
import sys

import pytest
import toolindex_postgres
from toolindex_postgres import redacted


def test_every_public_name_is_there_and_another_is_refused():
    for name in toolindex_postgres.__all__:
        assert hasattr(toolindex_postgres, name)
    assert set(toolindex_postgres.__all__) <= set(dir(toolindex_postgres))
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        toolindex_postgres.nothing  # noqa: B018


def test_showing_an_address_loads_neither_the_driver_nor_the_index():
    code = "import sys, toolindex_postgres as it\nit.redacted('')\nprint(*sys.modules)"
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=quiet, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & {"psycopg", "toolindex", "apsw", "sqlite3"}


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://me:s3cret@h/db", "postgresql://me@h/db"),
        ("postgresql://h/db", "postgresql://h/db"),
        ("postgresql://", "postgresql://"),
        ("postgresql://me:s3cret@a:1,b:2/db?x=1", "postgresql://me@a:1,b:2/db?x=1"),
        ("postgresql://me:s3c@ret/@h/db", "postgresql://me@h/db"),
        ("postgresql://me:s3?cret@h/db", "postgresql://me@h/db"),
        ("postgresql://h/db?password=s3cret&x=1", "postgresql://h/db?x=1"),
        ("postgresql://h/db?x=1&sslpassword=s3cret", "postgresql://h/db?x=1"),
        ("host=h password=s3cret dbname=db", "host=h dbname=db"),
        (r"host=h password='s3 c\'ret' dbname=db", "host=h dbname=db"),
        (r"host=h password = s3\ cret", "host=h"),
    ],
)
def test_an_address_is_shown_without_its_password(address, shown):
    assert redacted(address) == shown
