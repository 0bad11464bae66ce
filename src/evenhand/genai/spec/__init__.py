"""The configuration: conditions, groups of values, deadlines, generator, classifier, judge and guard."""
