"""The sweep behind `live`, compiled."""

from __future__ import annotations

from numba import njit


@njit(cache=True)
def sweep(layer, start, t):
    """From the live states at time t + 1 to those at t, in place.

    States go by how many were seen, then by ``n_a``: ``start[n_a, n_b] + a * (n_b + 1) + b``. Only states with more
    seen are read after this one, and those are not overwritten yet.
    """
    for seen in range(t + 1):
        for n_a in range(seen + 1):
            n_b = seen - n_a
            here, more_a, more_b = start[n_a, n_b], start[n_a + 1, n_b], start[n_a, n_b + 1]
            for a in range(n_a + 1):
                for b in range(n_b + 1):
                    i = here + a * (n_b + 1) + b
                    if layer[i]:
                        of_a = layer[more_a + a * (n_b + 1) + b] | layer[more_a + (a + 1) * (n_b + 1) + b]
                        of_b = layer[more_b + a * (n_b + 2) + b] | layer[more_b + a * (n_b + 2) + b + 1]
                        layer[i] = of_a & of_b
