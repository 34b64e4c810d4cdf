"""Fairness between programs of many threads: PFS, DW-CFS and what stands against them."""
