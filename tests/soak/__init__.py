"""A long time under everything at once, and whether anything grows that should not.

make soak MINUTES=30
"""
