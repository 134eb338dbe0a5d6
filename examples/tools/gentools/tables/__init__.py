"""Tools written by an agent for CSV and JSON data."""
