"""Chooses the worker of a task, and moves what waits from one worker to another."""
