"""Addresses: what is accepted, and that no part of a password is ever shown."""

import pytest
from toolindex import DatabaseError
from toolindex_postgres import Address, Database, UnreachableStoreError
from toolindex_postgres._errors import AddressError

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("text", "url", "shown", "tree"),
    [
        ("postgres://host", "postgresql://host", "postgresql://host", ""),
        ("POSTGRESQL://host/db", "postgresql://host/db", "postgresql://host/db", ""),
        ("postgresql:/host/db", "postgresql://host/db", "postgresql://host/db", ""),
        ("postgresql://", "postgresql://", "postgresql://", ""),
        ("postgresql:///db?host=/run/pg", *["postgresql:///db?host=/run/pg"] * 2, ""),
        (
            "postgresql://u:p%40s@a:1,b:2/db?tree=x&target_session_attrs=any",
            "postgresql://u:p%40s@a:1,b:2/db?target_session_attrs=any",
            "postgresql://u@a:1,b:2/db?target_session_attrs=any",
            "x",
        ),
        (
            "postgresql://h/db?password=p&user=u&sslpassword=q",
            "postgresql://h/db?password=p&user=u&sslpassword=q",
            "postgresql://h/db?user=u",
            "",
        ),
        ("postgresql://h?%70assword=p", "postgresql://h?%70assword=p", "postgresql://h", ""),
    ],
)
def test_an_address_is_shown_without_its_password(text, url, shown, tree):
    address = Address.parse(text)
    assert (address.url, address.shown, address.tree) == (url, shown, tree)
    assert str(address) == shown + "&?"["?" not in shown] * bool(tree) + f"tree={tree}" * bool(tree)
    with Database(text) as database:
        assert database.where == shown


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"postgresql://me:{SECRET}@x@host/db", "an @ as %40"),
        (f"postgresql://me:{SECRET}/x@host/db", "an @ as %40"),
        (f"postgresql://me:{SECRET}#x@host/db", "an @ as %40"),
        (f"postgresql://me:{SECRET}@[h/db", "an @ as %40"),
        (f"postgresql:/me:{SECRET}", "an @ as %40"),
        (f"postgresql://host/db?tree=&x={SECRET}", "a tree needs a name"),
        (f"postgresql://host/db?tree=*&x={SECRET}", "cannot be named *"),
        (f"postgresql+psycopg://me:{SECRET}@host/db", "begins with postgresql://"),
        (f"mysql://me:{SECRET}@host/db", "give a path or postgresql://"),
        (f" postgresql://me:{SECRET}@host/db", "is written postgresql://"),
        (f"host=localhost user=me password={SECRET}", "is written postgresql://"),
        ("sqlite:///index.db", "give the path itself"),
    ],
)
def test_an_invalid_address_is_refused_without_being_repeated(text, told):
    with pytest.raises(ValueError, match=told.replace("*", r"\*")) as refused:
        Address.parse(text)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "address",
    [f"host=h password={SECRET} nonsense", f"postgresql://me:{SECRET}@x@h/db", f"mysql://{SECRET}"],
)
def test_a_database_refuses_an_invalid_address_without_showing_its_password(address):
    with pytest.raises(AddressError, match="%40") as refused:
        Database(address)
    assert SECRET not in str(refused.value)


def test_a_database_at_libpqs_keywords_is_shown_without_its_password(tmp_path):
    with Database(f"host={tmp_path} password='{SECRET} x' dbname=db") as database:
        assert database.where == f"dbname=db host={tmp_path}"
        with pytest.raises(UnreachableStoreError) as unreachable:
            database.init()
    assert SECRET not in str(unreachable.value)
    with pytest.raises(DatabaseError, match="closed"):
        database.status()
