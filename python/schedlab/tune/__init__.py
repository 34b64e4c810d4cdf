"""Search for the minimum of any function of named numbers."""
