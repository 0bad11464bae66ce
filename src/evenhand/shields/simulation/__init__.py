"""Many runs with and without a shield, and a policy looked at as a whole."""
