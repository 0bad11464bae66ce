"""White-box networks whose first layer is a sum of functions of single attributes."""
