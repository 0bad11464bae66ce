"""Generators of items: HTTP services, recorded items, and a studio."""
