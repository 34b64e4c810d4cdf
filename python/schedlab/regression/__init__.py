"""Which change between two kernels makes a workload slower or faster, and what undoes it."""
