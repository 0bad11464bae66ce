"""Replay of logs: derive every hash, state and decision again and compare."""
