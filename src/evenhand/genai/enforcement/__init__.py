"""Keep every deadline while items are generated: the enforcer, and a guard around a generator."""
