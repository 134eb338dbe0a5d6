"""Tools written by an agent on top of the weather and map tools."""
