"""Language models that decide about people: screening files, prompts, answers and their cost."""
