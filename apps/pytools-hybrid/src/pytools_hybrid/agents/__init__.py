"""Search for programs: blocking, over tools in memory, and in agent frameworks."""
