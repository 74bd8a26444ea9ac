"""Ends tasks: a result, a failure, a cancel, a lost worker, a retry."""
