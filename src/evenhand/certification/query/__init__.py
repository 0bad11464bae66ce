"""What is asked: people as cells, boxes of them, margins between labels, and how rounding is kept sound."""
