"""Models that can be trained again, one module per kind."""
