"""Suites: the drivers. They issue steps and judge nothing; what a step means is the oracle's matter.

machine.py draws steps with Hypothesis, one emphasis per profile; the other modules are directed scenarios, one per profile.
"""
