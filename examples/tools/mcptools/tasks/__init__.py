"""Personal tasks, to-do lists and reminders."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="tasks")
