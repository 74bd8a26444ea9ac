"""`scaler_dump ADDRESS`: what a scheduler remembers, for people who look for a mistake in it. Needs no extra."""
