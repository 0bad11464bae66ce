"""White-box ensembles of decision trees from any library."""
