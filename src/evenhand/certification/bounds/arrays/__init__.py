"""Linear bounds computed on whole NumPy arrays, for wide networks."""
