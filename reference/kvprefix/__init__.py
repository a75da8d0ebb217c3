"""kvprefix: the executable specification of prefix-aware KV-cache stores.

Start with :mod:`kvprefix.api` (the contract), then :mod:`kvprefix.model` (what it means) and :mod:`kvprefix.store` (how fast
it can be).
"""
