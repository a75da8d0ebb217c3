"""match(chain): the longest resident prefix. Carries PFX-4."""

from __future__ import annotations

from collections.abc import Iterator

from kvprefix_conformance.oracle.case import Case, Rules, story
from kvprefix_conformance.records import Violation


def longest_resident_prefix(case: Case) -> Iterator[Violation]:
    """PFX-4: not less than what is surely resident from the start, and not past the first sure hole."""
    if case.step.op != "match":
        return
    chain, start, got = list(case.step.args["chain"]), case.step.args.get("start", 0), case.step.answer
    low, high = bounds(case, chain, start)
    expected = f"{low}" if low == high else f"{low} to {high}"
    if got > high or got < start:
        why = f"{story(case.before[chain[high]])}" if high < len(chain) else f"the chain has {len(chain)} blocks"
        if high < len(chain) and not case.before[chain[high]].surely_unreadable:
            why = f"match starts at {start}"
        yield case.broken("match-over", f"{why}, and match counts {got}", expected=expected, got=str(got))
    elif got < low:
        why = story(case.before[chain[got]])
        yield case.broken("match-short", f"{why}, so are all before it, and match counts {got}", expected=expected, got=str(got))
    elif start < got:
        case.hit("PFX-4", "a prefix matched")
        if got < len(chain) and any(case.before[key].surely_resident for key in chain[got + 1 :]):
            case.hit("PFX-4", "a match stopped at a hole with blocks behind it")
        elif got < len(chain):
            case.hit("PFX-4", "a match stopped before the end")


def bounds(case: Case, chain: list[str], start: int) -> tuple[int, int]:
    """Least and greatest length that the ledger allows."""
    low = start
    while low < len(chain) and case.before[chain[low]].surely_resident:
        low += 1
    high = low
    while high < len(chain) and not case.before[chain[high]].surely_unreadable:
        high += 1
    if case.terms.capabilities.hit_extension == "implied":
        possible = [i + 1 for i in range(start, len(chain)) if not case.before[chain[i]].surely_unreadable]
        high = max([high, *possible])
    return low, high


RULES: Rules = (longest_resident_prefix,)
