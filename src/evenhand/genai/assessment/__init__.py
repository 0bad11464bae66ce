"""Assessment of recorded items, live generators and configurations."""
