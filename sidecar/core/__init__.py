"""Values and decisions: everything the sidecar knows, and how it makes up its mind.

Pure and total. No clock, no chance, no IO, no logging, standard library only: the same
arguments give the same answer in production, in a test and in the simulator.
"""
