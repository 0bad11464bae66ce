"""Networks trained to be fair: losses, the loop, a scikit-learn-style estimator (needs the extra ``torch``)."""
