"""The abstract model: the executable specification of a prefix-aware store, slow and short on purpose.

Read ``values`` (what a state is), ``actions`` (what can happen), ``eviction`` (the choice that the rules leave open), then
``writes``, ``reads`` and ``upkeep`` (a function per action). ``step`` ties them together; ``invariants`` says what must hold.
"""
