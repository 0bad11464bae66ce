"""Rankings: who is selected, who gets attention and who stands above whom, by group, list by list."""
