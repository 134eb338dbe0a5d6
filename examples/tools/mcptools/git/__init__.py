"""Git: a working copy on this machine."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="git")
