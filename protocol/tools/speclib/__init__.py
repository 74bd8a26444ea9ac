"""The rules that the specification keeps about itself: numbered clauses, citations, tables made from data."""
