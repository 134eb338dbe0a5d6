"""Tools written by an agent on top of the GitHub tools."""
