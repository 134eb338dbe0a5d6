"""Translation between human languages."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="translation")
