"""Images: making, changing and reading pictures."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="images")
