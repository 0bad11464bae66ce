"""Certification of decision trees and their ensembles: cells between thresholds, bounds over leaves, shares."""
