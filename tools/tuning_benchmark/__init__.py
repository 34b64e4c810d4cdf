"""Searches for a setting, compared by the real runs that they need.

``python -m tuning_benchmark`` records a table of real runs for each workload and place of
``validation/tuning.toml``, runs every search on every table, and writes the page.
"""
