"""This computer: commands, processes and resources."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="system")
