"""Language models behind OpenAI-compatible services, and the values that they state in their answers."""
