"""SQL databases: schema, queries and changes."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="database")
