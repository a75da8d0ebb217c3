"""Oracles: all judgement of the suite. Each module holds the rules of one family of requirements, each rule a short function.

Independent of the reference store and of the abstract model by construction: an oracle knows only what a black box can know.
"""
