"""The web: searching it and reading its pages."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="web")
