"""The central theorems, for forests of any size: each file states one in words and has an SMT solver confirm it.

Optional extra ``proof`` (z3-solver). ``python -m kvprefix.proofs`` runs them all. Every proof has a broken variant that the solver
must refute with a counterexample; a proof that could not fail would prove nothing. Requirements: PFX-1, PFX-2, PFX-5, PFX-6, PFX-9.
"""
