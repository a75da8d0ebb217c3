"""The abstract model: the executable specification of a prefix-aware store, slow and short on purpose.

Read ``values`` (what a state is), ``actions`` (what can happen), ``eviction`` (the choice that the rules leave open), then
``writes``, ``reads`` and ``upkeep`` (a function per action, in three bands: Requires, Effect, Answer). ``step`` ties them together,
``choices`` lists what the store may choose, ``invariants`` says what always holds and ``witnesses`` what a run must have seen.
"""
