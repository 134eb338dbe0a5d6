"""Travel: flights and places to stay."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="travel")
