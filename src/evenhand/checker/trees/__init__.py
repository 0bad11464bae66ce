"""Certificates of tree ensembles, whose boxes are proved again in integer arithmetic."""
