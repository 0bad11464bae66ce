"""Keep every deadline while items are made: the enforcer, and a guard around a generator."""
