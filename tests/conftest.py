"""What every test of the package shares."""

from hypothesis import settings

# The same examples on every run and machine, and no limit on time: a slow machine is no failure.
settings.register_profile("schedlab", derandomize=True, deadline=None)
settings.load_profile("schedlab")
