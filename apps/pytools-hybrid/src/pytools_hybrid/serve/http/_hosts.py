"""Allowed host names, which protect against DNS rebinding by web pages."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import TYPE_CHECKING, Self

from pytools_hybrid.errors import SettingsError

if TYPE_CHECKING:
    from collections.abc import Iterable

_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/?#@*\[\]]+))(?::([0-9]{1,5}))?", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class NetworkLocation:
    """A host and its port, as in a `Host` header.

    Attributes:
        name: The host in lower case, an IPv6 address without brackets.
    """

    name: str
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parse `example.org`, `127.0.0.1:8000` or `[::1]:8000`; return None for anything else."""
        match = _AUTHORITY.fullmatch(text.strip())
        if match is None:
            return None
        address, name, port = match.groups()
        if address is not None and not _is_address(address):
            return None
        return cls((address or name).lower().rstrip("."), int(port) if port else None)

    @classmethod
    def of_origin(cls, origin: str) -> Self | None:
        """Parse an `Origin` header; return None if it has no host, such as `null`."""
        scheme, separator, rest = origin.strip().partition("://")
        location = cls.parse(rest) if separator else None
        if location is None or scheme.lower() not in _DEFAULT_PORTS:
            return None
        return cls(location.name, location.port or _DEFAULT_PORTS[scheme.lower()])


class HostRule:
    """Decides which host names, and pages of which origins, may address a server.

    A server at a loopback address only answers to loopback names, at any port, and to allowed
    names; any other server answers to every name, unless allowed names are given. A page may send
    requests if its own host is such a name; where every name is allowed, only to its own host.

    Args:
        bound: The address of the server.
        allowed: Additional names; one with a port only allows that port.

    Raises:
        SettingsError: A name is not a host name.
    """

    def __init__(self, bound: str, allowed: Iterable[str]) -> None:
        self._allowed = frozenset(parse_allowed(name) for name in allowed)
        self._bound = bound.lower()
        self._answers_all = not is_loopback(bound) and not self._allowed

    def allows_host(self, host: NetworkLocation | None) -> bool:
        """Return whether requests may have this `Host` header."""
        return host is not None and (self._answers_all or self._is_known(host))

    def allows_origin(self, origin: str, host: NetworkLocation) -> bool:
        """Return whether a page of an origin may send a request to a host."""
        location = NetworkLocation.of_origin(origin)
        if location is None:
            return False
        return is_same_origin(origin, host) or (not self._answers_all and self._is_known(location))

    def _is_known(self, host: NetworkLocation) -> bool:
        return (
            is_loopback(host.name)
            or host.name == self._bound
            or not self._allowed.isdisjoint({host, NetworkLocation(host.name, None)})
        )


def is_same_origin(origin: str, host: NetworkLocation) -> bool:
    """Return whether a page comes from the host that its request is sent to."""
    location = NetworkLocation.of_origin(origin)
    ports = _DEFAULT_PORTS.values() if host.port is None else (host.port,)
    return location is not None and location.name == host.name and location.port in ports


def is_loopback(host: str) -> bool:
    """Return whether a host is always this machine, whatever DNS says."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def parse_allowed(name: str) -> NetworkLocation:
    """Parse an allowed name; brackets are optional around an IPv6 address."""
    bare = NetworkLocation(name.lower(), None) if _is_address(name) else None
    location = bare or NetworkLocation.parse(name)
    if location is None:
        raise SettingsError(
            "--allowed-host / PYTOOLS_ALLOWED_HOSTS",
            f"{name!r} is not a host name; give it as in 'tools.example.org'",
        )
    return location


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
