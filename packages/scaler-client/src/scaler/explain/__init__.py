"""scaler_explain: why a task waits, for those who have only its id."""
