"""What a network is taught besides being right, one module per method."""
