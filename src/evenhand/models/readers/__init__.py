"""Readers that convert files to white boxes, one module per format. No code in a file is run."""
