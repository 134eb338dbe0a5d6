"""PDF documents: reading, joining, splitting and filling in."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="pdf")
