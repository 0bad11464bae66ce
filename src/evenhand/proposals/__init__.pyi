from .propose import add_proposals, propose_rules

__all__ = ["add_proposals", "propose_rules"]
