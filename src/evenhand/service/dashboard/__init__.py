"""Dashboard of the streams, which needs no other server."""
