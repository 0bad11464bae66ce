"""The HTTP interface: application, routes, errors as answers."""
