"""Checks any peer of the protocol against its clauses. The name is reserved; the suite comes later."""
