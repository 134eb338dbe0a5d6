"""Smart home: lights, heating and other devices."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="home")
