"""Files and folders inside the directories that the server may touch."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="filesystem")
