"""Questions of certificates: cells of people, boxes, margins between labels, and rounding errors."""
