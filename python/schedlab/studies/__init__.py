"""Published studies, done again: one module a paper."""
