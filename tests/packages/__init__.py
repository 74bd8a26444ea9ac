"""What is in the packages that are published."""
