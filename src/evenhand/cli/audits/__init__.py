"""Commands that audit and compare, and their options for conditions."""
