"""Linear bounds of ReLU networks over sixteen boxes at once, compiled."""
