"""What an item shows: one protocol, a model that is asked over HTTP, and classifiers that need no model."""
