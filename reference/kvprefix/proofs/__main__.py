"""Run every proof and every refutation: ``python -m kvprefix.proofs``. Exit code 1 if one of them does not come out as stated."""

from __future__ import annotations

import sys

from kvprefix.errors import MissingDependencyError


def main() -> int:
    """Print one line per claim."""
    try:
        from kvprefix.proofs import closure, progress, recency
    except MissingDependencyError as missing:
        print(missing, file=sys.stderr)
        return 2
    wrong = 0
    for module in (closure, progress, recency):
        for outcome in module.prove():
            wrong += not outcome.proved
            print(f"{'proved' if outcome.proved else 'NOT PROVED':<12}{outcome.claim}")
        for outcome in module.refute():
            wrong += outcome.proved
            print(f"{'NOT REFUTED' if outcome.proved else 'refuted':<12}{outcome.claim}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
