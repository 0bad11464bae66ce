"""Refutation: the smallest gap that the rules of a family reach at an accuracy floor, or a proved bound."""
