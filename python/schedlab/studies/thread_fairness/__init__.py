"""Fairness between programs of many threads: PFS, DW-CFS and the arguments against them."""
