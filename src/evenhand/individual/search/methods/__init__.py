"""The search methods: each is one function in a module of its own, called by the name it has in ``METHODS``."""
