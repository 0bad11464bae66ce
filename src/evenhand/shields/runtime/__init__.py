"""Running shields: decisions, labels, certificates, and replay of logs."""
