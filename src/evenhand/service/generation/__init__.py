"""Guarded generators, as the service runs them."""
