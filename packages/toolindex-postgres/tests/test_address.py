"""Addresses of servers in messages."""

import pytest
from toolindex_postgres import redacted


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
