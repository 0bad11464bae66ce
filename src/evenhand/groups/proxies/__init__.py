"""Rates of groups whose membership is known only as a probability."""
