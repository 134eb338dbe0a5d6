"""Team chat: channels, threads and direct messages."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="chat")
