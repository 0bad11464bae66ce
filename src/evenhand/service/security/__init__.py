"""Who may ask what of the service, how much of it, and what is kept out of its log."""

from __future__ import annotations

from evenhand.service.security.keys import Caller, Key, Keys, Scope, requires

__all__ = ["Caller", "Key", "Keys", "Scope", "requires"]
