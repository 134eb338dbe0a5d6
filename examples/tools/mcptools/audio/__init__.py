"""Speech and sound."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="audio")
