"""What can be tried, by name."""
