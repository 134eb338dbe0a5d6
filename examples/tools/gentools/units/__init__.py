"""Tools written by an agent for units of measure."""
