"""The ``kvprefix`` command. The console script starts here, so this module needs nothing but the standard library at the top.

Where an optional dependency is missing it says what to install (exit code 2); else ``main`` is the group of commands/group.py.
"""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, NoReturn

#: What the command line and the suite need beyond the core dependencies.
_NEEDED = ("click", "rich", "hypothesis", "jsonschema", *(("tomli",) if sys.version_info < (3, 11) else ()))


def missing_dependencies() -> list[str]:
    """Names of packages that are needed and not installed."""
    return [name for name in _NEEDED if importlib.util.find_spec(name) is None]


def _tell_what_is_missing(*_arguments: Any, **_keywords: Any) -> NoReturn:
    print(
        f"kvprefix: the command line needs {', '.join(missing_dependencies())}, which is not installed.\n"
        "Install it with:  pip install 'kvprefix[conformance]'",
        file=sys.stderr,
    )
    sys.exit(2)


def _group() -> Any:
    if missing_dependencies():
        return _tell_what_is_missing
    from kvprefix_conformance.commands.group import group

    return group


main: Any = _group()

if __name__ == "__main__":
    main()
