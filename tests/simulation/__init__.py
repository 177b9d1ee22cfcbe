"""A deterministic simulator: the shipped engine and performer over fakes, one seed a history.

python -m tests.simulation --seeds 1000            # many schedules
python -m tests.simulation --seed 42 --print       # one, told line by line
"""
