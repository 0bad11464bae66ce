"""Certificates: proved shares, an estimate of the rest, counterexamples, breakdowns, and the certificate file."""
