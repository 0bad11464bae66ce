"""Statistics that may be looked at while data still come: bets, alpha spent at looks, confidence sequences."""
