"""Keeps every task where its state says, and finds it: ready, waiting, delivered, presented."""
