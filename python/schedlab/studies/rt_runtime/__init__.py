"""The real-time throttle, and what it costs others."""
