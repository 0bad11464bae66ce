"""Published methods."""
