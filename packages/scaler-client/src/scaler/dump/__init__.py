"""`scaler_dump ADDRESS`: what a scheduler remembers, for whoever looks for a mistake in it. Needs no extra."""
