"""What works here, and how searches are used: for commands and the console."""
