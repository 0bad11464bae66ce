"""Ensembles of decision trees of any library as white boxes."""
