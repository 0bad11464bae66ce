"""What is asked of a shield: property, inputs, horizon, ends, and what it then guarantees."""
