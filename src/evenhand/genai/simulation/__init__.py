"""Streams of requests under policies, and what was delivered."""
