"""What makes items for prompts: one protocol, HTTP services, diffusion models, recorded sequences, and a studio."""
