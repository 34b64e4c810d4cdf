"""The pictures of the documentation, drawn from simulated runs.

``scripts/pictures`` draws them all into ``docs/images``; a test draws them again and compares.
"""
