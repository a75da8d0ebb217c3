"""The conformance suite of kvprefix: it tests any KV-cache store from outside, through the contract in :mod:`kvprefix.api`."""
