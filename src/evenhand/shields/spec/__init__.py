"""Specification of shields: property, inputs, horizon, ends and guarantees."""
