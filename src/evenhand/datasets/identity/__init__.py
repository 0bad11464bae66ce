"""Identity terms in texts: corresponding words of the groups of a category."""
