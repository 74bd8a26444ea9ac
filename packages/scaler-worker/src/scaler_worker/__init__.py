"""Workers of a Scaler cluster: agents that accept tasks and processors that run them."""
