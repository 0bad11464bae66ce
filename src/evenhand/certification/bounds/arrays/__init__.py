"""The linear method on whole arrays: wide networks, and accelerators. The same code runs on NumPy and on PyTorch."""
