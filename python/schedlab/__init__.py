"""A laboratory for the Linux CPU scheduler.

One description of a workload, a machine and a scheduler, two executions of it (simulated in
virtual time, or on a real kernel), one judgement of what came out.
"""
