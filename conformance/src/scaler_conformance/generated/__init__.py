"""Generated sequences. `engine` says how a run goes, `steps` what it is made of."""
