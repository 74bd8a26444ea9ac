"""Running a task, alike for all roles that do: from its parts to a call, from what the call left to a result.

For processes that run users' code and nothing else: it unpickles (SEC-3), and some of it wants POSIX.
"""
