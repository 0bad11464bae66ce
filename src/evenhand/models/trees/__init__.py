"""Ensembles of decision trees as white boxes, whatever library grew them."""
