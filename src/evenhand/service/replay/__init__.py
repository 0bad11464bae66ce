"""Replay of logs, which recomputes and compares every hash, state and decision."""
