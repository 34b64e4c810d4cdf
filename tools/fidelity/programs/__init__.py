"""Real programs: recorded under one setting, predicted under others, which are then really set.

Part of ``make fidelity-held-out``: the table of programs in ``docs/results/prediction.md``.
"""
