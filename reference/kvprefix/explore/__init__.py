"""The bounded model checker: every reachable state of the abstract model, within bounds that are named.

Read ``bounds`` (what is bounded), ``moves`` (what clients may do), ``walk`` (the search), ``configurations`` (the sets that are
run) and ``variants`` (unsafe designs, each refuted by a shortest counterexample). It takes the model's own step, and no other.
"""
