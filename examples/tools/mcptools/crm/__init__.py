"""Contacts and customers: people, companies, conversations and deals."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="crm")
