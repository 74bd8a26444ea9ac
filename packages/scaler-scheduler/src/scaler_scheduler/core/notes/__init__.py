"""Keeps what is written down for people: the history, functions' figures, names, events of the cluster."""
