"""The tables of published papers, made again: a script for each paper, published figures beside ours."""
