"""From files to white boxes, one module for each format; nothing in a file is run."""
