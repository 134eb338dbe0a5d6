"""Spreadsheets: cells, rows, worksheets and charts."""

from .._client import ExampleClient

CLIENT = ExampleClient(server_name="spreadsheets")
