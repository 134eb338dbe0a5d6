"""The console: pages on which people search like their agents, and inspect the results."""

from pytools_hybrid.serve.http.console._site import Console as Console
