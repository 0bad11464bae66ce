"""The answer: shares, an estimate of the rest, counterexamples, breakdowns, and the file that a checker reads."""
