"""The object storage of a cluster: large values by id, each kept for as long as it has an owner (spec STO, OWN)."""

__version__ = "0.1.0"
