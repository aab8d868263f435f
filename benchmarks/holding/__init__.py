"""The parts of held.py: loads, the machines that they run on, and how results are judged."""
