"""Documents of group results."""
