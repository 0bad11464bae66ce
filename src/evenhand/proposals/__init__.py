"""Rules, dependencies and links that data suggest for a schema, each with its evidence, for a person to review."""

from evenhand.proposals.propose import add_proposals, propose_rules

__all__ = ["add_proposals", "propose_rules"]
