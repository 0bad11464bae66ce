"""Store of states and logs: a SQLite file, or a PostgreSQL that several replicas share."""
