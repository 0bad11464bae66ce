"""The field's data sets, one module each."""
