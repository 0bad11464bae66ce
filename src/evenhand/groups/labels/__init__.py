"""Several labels by group: each against the rest, how they are confused, and grades in an order."""
