"""Subgroups of people about whom a number is decided, such as a premium: how they are searched for, and in words."""
