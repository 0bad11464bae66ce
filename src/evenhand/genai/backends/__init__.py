"""Generators of items: HTTP services, diffusion models, recorded items, and a studio."""
