"""Prediction of workloads that the simulator was not tuned for.

`draw` makes workloads from seeds, `collect` runs and simulates them, `errors` relates the two to
the kernel's own spread, and `page` writes ``docs/results/prediction.md``.
"""
