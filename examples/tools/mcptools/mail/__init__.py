"""Email: reading, searching, writing and sorting messages."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="mail")
