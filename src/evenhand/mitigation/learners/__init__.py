"""Models that can be retrained, one module per kind."""
