"""Weather: present conditions, forecasts and warnings."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="weather")
