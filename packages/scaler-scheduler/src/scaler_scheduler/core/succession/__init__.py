"""Survives the death of a scheduler: what workers present, what a successor keeps and confirms."""
