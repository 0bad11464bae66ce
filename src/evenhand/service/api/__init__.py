"""HTTP interface: application, routes and error responses."""
