"""Worker managers: they bring workers and take them away, as the scheduler asks (spec chapter 19)."""
