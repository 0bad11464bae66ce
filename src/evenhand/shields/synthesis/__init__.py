"""Synthesis of shields: values by one sweep backwards through the counters."""
