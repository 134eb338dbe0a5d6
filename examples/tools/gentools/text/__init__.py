"""Tools written by an agent for plain text."""
