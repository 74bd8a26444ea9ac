"""A real computation over data that every machine has: an index of the Python standard library, on a local cluster."""
