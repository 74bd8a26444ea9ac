"""What a task costs in things that can be counted, on any machine alike."""
