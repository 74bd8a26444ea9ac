"""The command for health checks."""
