"""Conditions on results, what came of them, and the files in which pipelines read that."""
