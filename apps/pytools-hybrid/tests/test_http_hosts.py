"""The addresses that a server may listen on, and the host names that it answers to."""

import pytest
from pytools_hybrid import Settings, SettingsError
from pytools_hybrid.serve.http import check_exposure
from pytools_hybrid.serve.http._access import HostRule, NetworkLocation


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
def test_an_invalid_allowed_name_is_refused(name):
    with pytest.raises(SettingsError, match="PYTOOLS_ALLOWED_HOSTS"):
        check_exposure(settings(allowed_hosts=(name,)))


@pytest.mark.parametrize(
    ("text", "name", "port"),
    [
        ("example.org", "example.org", None),
        ("Example.ORG.:80", "example.org", 80),
        ("127.0.0.1:8000", "127.0.0.1", 8000),
        ("[::1]", "::1", None),
        ("[2001:DB8::1]:8000", "2001:db8::1", 8000),
    ],
)
def test_a_host_header_is_parsed(text, name, port):
    assert NetworkLocation.parse(text) == NetworkLocation(name, port)


@pytest.mark.parametrize(
    "text",
    ["", ":80", "::1", "a b", "user@localhost", "localhost:", "localhost:x", "[localhost]", "a/b"],
)
def test_an_invalid_host_header_has_no_location(text):
    assert NetworkLocation.parse(text) is None


def allows(rule, host, origin=None):
    location = NetworkLocation.parse(host)
    if not rule.allows_host(location):
        return False
    return origin is None or rule.allows_origin(origin, location)


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("127.0.0.1:8000", None, True),
        ("localhost:9", None, True),
        ("LocalHost", None, True),
        ("[::1]:8000", None, True),
        ("127.8.8.8", None, True),
        ("tools.example:1", None, True),
        ("only.here:444", None, True),
        ("only.here:445", None, False),
        ("rebound.example:8000", None, False),
        ("localhost.example", None, False),
        ("127.0.0.1.example", None, False),
        ("localhost:8000", "http://localhost:8000", True),
        ("localhost:8000", "http://127.0.0.1:3000", True),
        ("localhost:8000", "http://[::1]:8000", True),
        ("localhost:8000", "https://tools.example", True),
        ("localhost:8000", "http://evil.example", False),
        ("localhost:8000", "http://localhost.evil.example:8000", False),
        ("localhost:8000", "null", False),
        ("localhost:8000", "file://localhost", False),
        ("localhost:8000", "http://evil.example@localhost", False),
        ("localhost:8000", "", False),
    ],
)
def test_at_loopback_only_loopback_and_allowed_names_are_answered(host, origin, expected):
    rule = HostRule("127.0.0.1", ("tools.example", "only.here:444"))

    assert allows(rule, host, origin) is expected


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("tools.example.org", None, True),
        ("tools.example.org:8000", None, True),
        ("10.0.0.5:8000", None, True),
        ("localhost:8000", None, True),
        ("rebound.example", None, False),
        ("tools.example.org", "https://tools.example.org", True),
        ("tools.example.org", "https://evil.example", False),
    ],
)
def test_at_other_addresses_only_allowed_names_are_answered(host, origin, expected):
    rule = HostRule("10.0.0.5", ("tools.example.org",))

    assert allows(rule, host, origin) is expected


@pytest.mark.parametrize(
    ("host", "origin", "expected"),
    [
        ("whatever.example:8000", None, True),
        ("whatever.example:8000", "http://whatever.example:8000", True),
        ("whatever.example:8000", "http://whatever.example:9000", False),
        ("whatever.example", "https://whatever.example", True),
        ("whatever.example", "https://whatever.example:444", False),
        ("whatever.example:8000", "http://localhost:8000", False),
    ],
)
def test_without_allowed_names_a_page_may_only_call_its_own_host(host, origin, expected):
    assert allows(HostRule("0.0.0.0", ()), host, origin) is expected


def test_a_host_rule_refuses_an_invalid_name():
    with pytest.raises(SettingsError, match="PYTOOLS_ALLOWED_HOSTS"):
        HostRule("0.0.0.0", ("a b",))


@pytest.mark.parametrize("name", ["2001:db8::7", "[2001:db8::7]", "2001:DB8::7"])
def test_an_ipv6_address_can_be_allowed(name):
    check_exposure(settings(allowed_hosts=(name,)))
    rule = HostRule("10.0.0.5", (name,))

    assert allows(rule, "[2001:db8::7]:8000")
    assert not allows(rule, "[2001:db8::8]:8000")
