"""Families of rule sets that are too many for one count cube, with the permutations of the outcome inside."""
