"""Tools written by an agent for sums of money."""
