"""Certificates of tree ensembles: their boxes proved again in whole numbers."""
