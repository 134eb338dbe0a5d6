"""A personal knowledge base of linked notes."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="notes")
