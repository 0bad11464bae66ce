"""Charts of shields: how they act, and what simulations of them show."""
