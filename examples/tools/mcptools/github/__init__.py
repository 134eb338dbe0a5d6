"""GitHub: issues, pull requests, repositories and the files in them."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="github")
