"""White boxes: networks whose first layer is a sum of one function of each attribute."""
