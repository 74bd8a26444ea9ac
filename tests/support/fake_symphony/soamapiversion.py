"""Symphony's own puts a directory into sys.path. Ours is there already."""
