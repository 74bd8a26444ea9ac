"""Generated sequences: what no hand has written down. See `engine` for how a run goes, `steps` for what it is made of."""
