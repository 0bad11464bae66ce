"""Classifiers of items, and their error rates."""
