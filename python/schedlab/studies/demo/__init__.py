"""The demo: calibrate, validate, tune and verify on this kernel."""
