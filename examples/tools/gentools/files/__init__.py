"""Tools written by an agent for files and folders."""
