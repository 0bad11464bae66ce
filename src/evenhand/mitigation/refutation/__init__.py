"""Refutation: the smallest gap that any rule of a family reaches at an accuracy floor, or a proved bound."""
