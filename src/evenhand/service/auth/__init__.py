"""Who may ask what of the service, how much of it, and what is kept out of its log."""
