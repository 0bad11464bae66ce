"""Authentication, limits and the request log."""
