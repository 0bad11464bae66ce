"""Networks trained to be fair: losses, training loop and scikit-learn estimator (requires the extra ``torch``)."""
