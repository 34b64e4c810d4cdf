"""A scheduler tuned by particle swarms and golden section."""
