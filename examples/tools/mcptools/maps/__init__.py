"""Maps: addresses, places and routes."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="maps")
