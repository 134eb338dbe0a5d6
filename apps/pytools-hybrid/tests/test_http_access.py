"""The addresses that a server may listen on, the host names that it answers to, and the token."""

import asyncio

import pytest
from pytools_hybrid import Settings, SettingsError
from pytools_hybrid.serve.http import check_exposure, create_app
from pytools_hybrid.serve.mcp import create_server

from .conftest import calling, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


def settings(**flags):
    return Settings.from_flags({"transport": "http"} | flags)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST", "::1"])
def test_a_loopback_address_needs_no_token(host):
    check_exposure(settings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "tools.example.org", ""])
def test_any_other_address_requires_a_token(host):
    with pytest.raises(SettingsError, match="PYTOOLS_TOKEN"):
        check_exposure(settings(host=host))

    check_exposure(settings(host=host, token="secret"))


def test_over_stdio_the_address_is_not_checked():
    check_exposure(Settings.from_flags({"transport": "stdio", "host": "0.0.0.0"}))


@pytest.mark.parametrize("name", ["http://example.org", "a b", "*", "example.org/x", "[::1", "a:b"])
def test_an_invalid_allowed_name_is_refused(name, tmp_path):
    made = settings(allowed_hosts=(name,), tools="basic")
    with pytest.raises(SettingsError, match="PYTOOLS_ALLOWED_HOSTS"):
        check_exposure(made)
    server = create_server(None, None, settings=made, root=tmp_path)
    with pytest.raises(SettingsError, match="PYTOOLS_ALLOWED_HOSTS"):
        create_app(None, None, server, made)


@pytest.fixture
def ask(tmp_path):
    """Return the status of a request to a server at an address, with a host and an origin."""

    async def answered(bound, allowed, host, origin=None):
        made = settings(host=bound, allowed_hosts=allowed, tools="basic")
        server = create_server(None, None, settings=made, root=tmp_path)
        headers = {"host": host} | ({} if origin is None else {"origin": origin})
        async with calling(create_app(None, None, server, made)) as client:
            return (await client.get("/health", headers=headers)).status_code

    return answered


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("127.0.0.1:8000", None, 200),
        ("localhost:9", None, 200),
        ("LocalHost", None, 200),
        ("[::1]:8000", None, 200),
        ("127.8.8.8", None, 200),
        ("Tools.EXAMPLE.:1", None, 200),
        ("only.here:444", None, 200),
        ("only.here:445", None, 421),
        ("[2001:DB8::7]:8000", None, 200),
        ("[2001:db8::8]:8000", None, 421),
        ("rebound.example:8000", None, 421),
        ("localhost.example", None, 421),
        ("127.0.0.1.example", None, 421),
        ("", None, 421),
        (":80", None, 421),
        ("::1", None, 421),
        ("a b", None, 421),
        ("user@localhost", None, 421),
        ("localhost:", None, 421),
        ("localhost:x", None, 421),
        ("[localhost]", None, 421),
        ("localhost/x", None, 421),
        ("localhost:8000", "http://localhost:8000", 200),
        ("localhost:8000", "http://127.0.0.1:3000", 200),
        ("localhost:8000", "http://[::1]:8000", 200),
        ("localhost:8000", "https://tools.example", 200),
        ("localhost:8000", "http://evil.example", 403),
        ("localhost:8000", "http://localhost.evil.example:8000", 403),
        ("localhost:8000", "null", 403),
        ("localhost:8000", "file://localhost", 403),
        ("localhost:8000", "http://evil.example@localhost", 403),
        ("localhost:8000", "", 403),
    ],
)
async def test_at_loopback_only_loopback_and_allowed_names_are_answered(ask, host, origin, status):
    allowed = ("tools.example", "only.here:444", "2001:db8::7")

    assert await ask("127.0.0.1", allowed, host, origin) == status


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("tools.example.org", None, 200),
        ("tools.example.org:8000", None, 200),
        ("10.0.0.5:8000", None, 200),
        ("localhost:8000", None, 200),
        ("rebound.example", None, 421),
        ("tools.example.org", "https://tools.example.org", 200),
        ("tools.example.org", "https://evil.example", 403),
    ],
)
async def test_at_other_addresses_only_allowed_names_are_answered(ask, host, origin, status):
    assert await ask("10.0.0.5", ("tools.example.org",), host, origin) == status


@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("whatever.example:8000", None, 200),
        ("whatever.example:8000", "http://whatever.example:8000", 200),
        ("whatever.example:8000", "http://whatever.example:9000", 403),
        ("whatever.example", "https://whatever.example", 200),
        ("whatever.example", "https://whatever.example:444", 403),
        ("whatever.example:8000", "http://localhost:8000", 403),
    ],
)
async def test_without_allowed_names_a_page_may_only_call_its_own_host(ask, host, origin, status):
    assert await ask("0.0.0.0", (), host, origin) == status


async def test_requests_without_the_token_start_one_at_a_time_and_delay_no_others(
    toolbox, tmp_path
):
    """However many connections ask, a request with the token is not behind all of them."""
    made = settings(db_path=tmp_path / "index.db", watch=False, token="secret")
    headers = {"authorization": "Bearer secret"}
    async with serving(made, toolbox) as client:
        assert (await client.get("/openapi.json", headers=headers)).status_code == 200
        strangers = [
            asyncio.create_task(client.get(path)) for path in ("/", "/search") for _ in range(300)
        ]
        await asyncio.sleep(0)
        known = await client.get("/openapi.json", headers=headers)
        by_then = sum(it.done() for it in strangers)
        answers = await asyncio.gather(*strangers)

    assert known.status_code == 200
    assert by_then < 20
    assert {it.status_code for it in answers} == {401}
