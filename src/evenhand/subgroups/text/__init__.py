"""Search for discriminated subgroups of texts: those that speak of somebody, against those that speak of others."""
