"""Bounds of a model over boxes of people, one folder for each way to compute them."""
