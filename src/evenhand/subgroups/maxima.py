"""Compiled maxima of the standardised gaps of many rule sets over the same attributes."""

from __future__ import annotations

from evenhand.core.kernels import compile_kernel


@compile_kernel(nogil=True, error_model="numpy", fastmath={"nnan", "nsz"})
def raise_maxima(sums, ends, rules, inside, factors, maxima):
    """Raise the largest absolute standardised gap of each permutation to that of the given rule sets.

    A gap is ``excess * above`` or, below 0, ``excess * below``, whichever is larger, where the excess is the sum of the
    outcomes minus the expected sum.

    Args:
        sums: Sums of permuted outcomes by conjunction of the rules on all attributes but the last, and by cell of the
            last attribute, shape (conjunctions, cells, permutations), float32.
        ends: Position after the last rule set of each conjunction, shape (conjunctions,).
        rules: Rule on the last attribute of each rule set, shape (rule sets,).
        inside: Cells in each of these rules, shape (rules, cells).
        factors: Expected sum, ``above`` and ``below`` of each rule set, shape (3, rule sets), float32.
        maxima: Largest gaps, shape (permutations,), float32. Raised in place.
    """
    _, cells, permutations = sums.shape
    total = maxima.copy()
    first = 0
    for conjunction in range(len(ends)):
        for i in range(first, ends[conjunction]):
            total[:] = 0
            for cell in range(cells):
                if inside[rules[i], cell]:
                    for k in range(permutations):
                        total[k] += sums[conjunction, cell, k]
            expected, above, below = factors[0, i], factors[1, i], factors[2, i]
            for k in range(permutations):
                excess = total[k] - expected
                maxima[k] = max(maxima[k], max(excess * above, excess * below))
        first = ends[conjunction]
