"""Money: exchange rates, market prices, invoices and spending."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="finance")
