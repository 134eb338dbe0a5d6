"""Tools written by an agent on top of the calendar tools."""
