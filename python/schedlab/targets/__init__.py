"""Where a workload runs: simulated (`sim`) or on the running kernel (`host`)."""
