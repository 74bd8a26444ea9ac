"""The object storage of a cluster: large values by id, each kept for as long as somebody owns it (spec STO, OWN)."""
