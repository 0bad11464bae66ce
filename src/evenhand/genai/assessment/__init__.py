"""Judge what a generator shows, recorded or asked now."""
