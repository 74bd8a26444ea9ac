"""Holds what the tables are made of: a client's batch, a worker, results, shares; nothing here looks anything up."""
