"""Synthesis of shields by one backward sweep over the counters."""
