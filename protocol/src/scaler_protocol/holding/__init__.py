"""Holding tasks, alike for every kind of worker: what a Dispatch says, who is next, what is on its way, how much more.

Pure, and decides nothing about where a task runs.
"""
