"""The console: pages on which people search as their agents do, and look at what is found.

`Console` has the routes and knows who has logged in. Pages, templates and what makes them are
imported with the first request for one.
"""

from pytools_hybrid.serve.http.console._console import Console

__all__ = ["Console"]
