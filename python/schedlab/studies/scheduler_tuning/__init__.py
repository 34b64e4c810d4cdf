"""A scheduler tuned by particle swarms and golden section, and the demonstration of it."""
