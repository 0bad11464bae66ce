"""The configuration: conditions, groups of values, deadlines, and the generator, classifier and judge it names."""
