"""The console: pages on which people search like their agents, and inspect the results.

`Console` has the routes and knows who has logged in. Pages and templates are imported with the
first request for a page.
"""

from pytools_hybrid.serve.http.console._console import Console

__all__ = ["Console"]
