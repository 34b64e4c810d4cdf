"""Experiments on any target: what is compared, in which blocks, and how it is judged."""
