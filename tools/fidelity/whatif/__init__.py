"""Predictions from recordings held to what was really done: ``make fidelity-what-if``.

A workload is recorded under some settings; from the recording alone it is predicted what others
would have made of it; then those are really set and it is recorded again.
"""
