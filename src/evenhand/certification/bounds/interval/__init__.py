"""Symbolic intervals, depth first: the method of FairQuant."""
