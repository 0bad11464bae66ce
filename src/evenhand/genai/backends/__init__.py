"""Generators of items: HTTP services, diffusion models, and a studio."""
