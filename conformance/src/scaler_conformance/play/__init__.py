"""The suite's own peers: a correct driver, every illegal act of which is asked for by name."""
