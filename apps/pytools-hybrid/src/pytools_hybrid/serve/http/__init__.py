"""The HTTP side of the server: MCP at /mcp, a JSON API with its OpenAPI document, and metrics.

`create_app` creates the application for an open `ToolSearch`, `serve_http` runs it until cancelled,
and `check_exposure` refuses settings that would let strangers in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytools_hybrid.serve.http._access import check_exposure

if TYPE_CHECKING:
    from pytools_hybrid.serve.http._app import create_app
    from pytools_hybrid.serve.http._run import AddressError, serve_http

__all__ = ["AddressError", "check_exposure", "create_app", "serve_http"]

_HOMES = {"create_app": "_app", "AddressError": "_run", "serve_http": "_run"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public name
    # Imported lazily, because `check_exposure` also runs when a server only uses stdio.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
