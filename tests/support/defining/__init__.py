"""Programs that define at their top whatever a program can define."""
