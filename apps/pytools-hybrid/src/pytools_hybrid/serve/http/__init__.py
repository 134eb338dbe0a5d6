"""The HTTP side of the server: MCP at /mcp, a JSON API with its OpenAPI document, and metrics.

`create_app` creates the application for an open `ToolSearch`, `serve_http` runs it until cancelled,
and `check_exposure` refuses settings that would let strangers in.
"""

from pytools_hybrid.serve.http._access import check_exposure as check_exposure
from pytools_hybrid.serve.http._app import create_app as create_app
from pytools_hybrid.serve.http._run import AddressError as AddressError
from pytools_hybrid.serve.http._run import serve_http as serve_http
