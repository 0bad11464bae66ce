"""Rates of groups whose membership is only known as a probability."""
