"""The reference pages, generated from the code.

``scripts/reference`` writes them into ``docs``; a test generates them again and compares.
"""
