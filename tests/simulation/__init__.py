"""A whole cluster in one process, from a seed: the real cores, memory for a network, virtual time.

`python -m tests.simulation --seeds 200` runs the seeds 0 to 199; `--seed 7 --transcript` tells one of them. Everything
a run does follows from its seed, so a failure is a number.
"""
