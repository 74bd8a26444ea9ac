"""Checks any peer of the Scaler protocol, in any language, against the clauses of its specification."""
