"""The dashboard: what happens in every stream, for people, in any browser and without a network."""
