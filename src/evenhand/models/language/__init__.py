"""Language models that decide about people: the file that describes one, prompts, answers, and what they cost."""
