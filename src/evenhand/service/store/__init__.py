"""Where the service keeps its state and its log: SQLite beside it, or a PostgreSQL that several replicas share."""
