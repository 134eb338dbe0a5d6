"""Calendars: events, invitations and free time."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="calendar")
