"""Enforcement of deadlines during generation: the enforcer, and guards around generators."""
