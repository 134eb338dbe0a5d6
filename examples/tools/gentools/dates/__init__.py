"""Tools written by an agent for dates and working days."""
