"""Simulated streams of requests under different policies."""
