"""The scheduler of Scaler: takes tasks from clients and spreads them over workers."""
