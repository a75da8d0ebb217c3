"""A failure as one screen of text: the requirement, the numbered scenario, expected and got, the state as a tree, why.

Everything comes from the scenario alone, so that a scenario file tells its story without the backend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kvprefix_conformance.codec import Json
from kvprefix_conformance.records import ObjectState, Scenario, Step
from kvprefix_conformance.requirements import catalogue


def narrate(scenario: Scenario, *, unicode: bool = True, rerun: str = "") -> str:
    """The text. ``rerun`` is the command that runs it again; by default one with a file name to fill in."""
    parts = [_head(scenario), _steps(scenario), _verdict(scenario), _state(scenario, unicode=unicode), _tail(scenario, rerun)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(scenario: Scenario) -> str:
    violation = scenario.violation
    if violation is None:
        return f"scenario of {scenario.check or 'no check'} on {scenario.backend}: no violation is recorded"
    requirement = catalogue().requirements.get(violation.requirement)
    sentence = requirement.sentence if requirement is not None else "not in this version of the specification"
    return f"{violation.requirement}  {sentence}\nbroken by {scenario.backend} ({violation.kind}), seen by {violation.evidence}"


# --------------------------------------------------------------------------------------------------------------------------------
# Steps


def _steps(scenario: Scenario) -> str:
    width = len(str(len(scenario.steps)))
    calls = [call_text(step) for step in scenario.steps]
    column = min(72, max((len(call) for call in calls), default=0))
    lines = []
    for number, (step, call) in enumerate(zip(scenario.steps, calls, strict=True), start=1):
        mark = ">" if scenario.violation is not None and number == scenario.violation.step + 1 else " "
        lines.append(f"{mark} {number:>{width}}. {call:<{column}}  -> {answer_text(step)}".rstrip())
    return "\n".join(lines)


def call_text(step: Step) -> str:
    """A step as a call: ``put b 682 bytes, parent a``."""
    text = _CALLS.get(step.op, _plain)(step.args)
    client = f" (client {step.client})" if step.client else ""
    return f"{step.op} {text}".rstrip() + client


def shown_key(key: str) -> str:
    """A key as it can be printed on one line: as it is, or quoted and cut."""
    if key and key.isprintable() and " " not in key and len(key) <= 40:
        return key
    if key and key.isprintable() and "@parent:" in key:
        return _lineage_name(key)
    quoted = ascii(key) if not key.isprintable() or not key.isascii() else repr(key)
    return quoted if len(quoted) <= 40 else f"{quoted[:16]}...{quoted[-12:]} ({len(key)} characters)"


def _lineage_name(key: str) -> str:
    """A key in lineage form by the end of its own hash."""
    own = key.split("@parent:")[0].rsplit("@", 1)[-1]
    try:
        name = bytes.fromhex(own).decode("ascii").rstrip("_")
    except ValueError:
        return own[:12]
    return name if name.isalnum() else own[:12]


def _put_text(args: Mapping[str, Json]) -> str:
    value, fill = args.get("value"), ""
    size = args["size"] if value is None else value["size"]
    if value is not None and value["fill"] != 1:
        fill = f" (value {value['fill']})"
    parts = [f"{shown_key(args['key'])} {size} bytes{fill}"]
    if args.get("parent", "@root") != "@root":
        parts.append(f"parent {_parent_text(args['parent'])}")
    parts += [f"{name} {value}" for name, value in args.get("options", {}).items()]
    if "as" in args:
        parts.append(f"attempt {args['as']}")
    if "token" in args:
        parts.append(f"attempt {args['token']}")
    return ", ".join(parts)


def _parent_text(parent: str) -> str:
    return "unknown" if parent == "@unknown" else shown_key(parent[1:] if parent.startswith("@@") else parent)


def _plain(args: Mapping[str, Json]) -> str:
    words = [shown_key(args["key"])] if "key" in args else []
    words += [str(args[name]) for name in ("token", "as") if name in args]
    if "ttl_ms" in args:
        words.append(f"for {args['ttl_ms']} ms")
    if "ms" in args:
        words.append(f"{args['ms']} ms")
    if "after" in args:
        words.append(f"after {args['after']}")
    if args.get("force"):
        words.append("forced")
    return " ".join(words)


def _list_text(args: Mapping[str, Json]) -> str:
    keys = args.get("keys", args.get("chain", []))
    start = f" from {args['start']}" if args.get("start") else ""
    return f"[{', '.join(map(shown_key, keys))}]{start}"


def _items_text(args: Mapping[str, Json]) -> str:
    return "[" + "; ".join(_put_text(item) for item in args["items"]) + "]"


def _register_text(args: Mapping[str, Json]) -> str:
    return f"{shown_key(args['key'])}, parent {_parent_text(args['parent'])}"


_CALLS = {
    "put": _put_text, "put_begin": _put_text, "put_commit": _put_text, "put_many": _items_text, "register": _register_text,
    "get_many": _list_text, "exists_many": _list_text, "match": _list_text,
}  # fmt: skip


def answer_text(step: Step) -> str:
    """What came back, in a few words."""
    text = _answer_text(step.answer, step)
    return f"{text} (no answer: it may have happened)" if step.indefinite else text


def _answer_text(answer: Json, step: Step) -> str:
    if step.op in ("advance", "quiesce", "jump_wall_clock") and answer is None:
        return "done"
    if answer is None:
        return "miss"
    if isinstance(answer, bool):
        return "hit" if answer else "miss"
    if isinstance(answer, list):
        return _many_text(answer, step)
    if isinstance(answer, dict):
        return _dict_text(answer)
    return str(answer)


def _many_text(answer: Sequence[Json], step: Step) -> str:
    if step.op == "events":
        return ", ".join(map(_event_text, answer)) or "none"
    return "[" + ", ".join(_answer_text(member, step) for member in answer) + "]"


def _event_text(event: Mapping[str, Json]) -> str:
    return f"{event['sequence']} {event['kind']} {shown_key(event['key']) if 'key' in event else ''}".rstrip()


def _dict_text(answer: Mapping[str, Json]) -> str:
    if "error" in answer:
        return f"{answer['error']['kind']}: {answer['error']['detail']}"
    if "skipped" in answer:
        return f"not run ({answer['skipped']})"
    if "answer" in answer:
        gone = answer.get("evicted") or answer.get("removed") or ()
        verb = "evicted" if answer.get("evicted") else "removed"
        return str(answer["answer"]) + (f", {verb} {', '.join(map(shown_key, gone))}" if gone else "")
    if "used_bytes" in answer:
        return f"{answer['used_bytes']} bytes in use, {answer['resident_objects']} objects"
    if "objects" in answer:
        return f"snapshot {answer['sequence']}: {', '.join(map(shown_key, answer['objects'])) or 'empty'}"
    if "of" in answer:
        part = f"{answer['size']} of {answer['whole']} bytes of " if "whole" in answer else ""
        return f"{part}value {answer['fill']} of {shown_key(answer['of'])}"
    return f"{answer['size']} bytes that nobody wrote" if answer.get("size") else "an empty value"


# --------------------------------------------------------------------------------------------------------------------------------
# Verdict, state, tail


def _verdict(scenario: Scenario) -> str:
    violation = scenario.violation
    if violation is None:
        return ""
    lines = [f"expected  {violation.expected}"] if violation.expected else []
    lines += [f"got       {violation.got}"] if violation.got else []
    lines.append(f"because   {violation.because}")
    return "\n".join(lines)


def _state(scenario: Scenario, *, unicode: bool) -> str:
    if not scenario.state:
        return ""
    return "\n".join([f"before step {len(scenario.steps)}:", *tree(scenario.state, unicode=unicode)])


def tree(state: Sequence[ObjectState], *, unicode: bool = True) -> list[str]:
    """The objects as a forest, one line each: filled dots are resident, hollow ones are not."""
    known = {each.key for each in state}
    tops = [each for each in state if each.parent not in known or each.parent == each.key]
    lines: list[str] = []
    seen: set[str] = set()
    for top in tops:
        lines += _branch(top, state, "", "", seen, unicode=unicode)
    for each in state:  # a cycle hangs below no top
        if each.key not in seen:
            lines += _branch(each, state, "", "", seen, unicode=unicode)
    return lines


_DOTS = {"resident": "\u25cf", "pending": "\u25d0", "deferred": "\u25cc", "absent": "\u25cb"}
_ASCII_DOTS = {"resident": "*", "pending": "+", "deferred": "~", "absent": "o"}


def _branch(
    each: ObjectState, state: Sequence[ObjectState], lead: str, under: str, seen: set[str], *, unicode: bool
) -> Iterator[str]:
    seen.add(each.key)
    dot = "?" if each.status.endswith("?") else (_DOTS if unicode else _ASCII_DOTS)[each.status]
    notes = [each.status, *each.marks]
    missing = each.parent if not each.parent.startswith("@") and each.parent not in {other.key for other in state} else ""
    notes += [f"its parent {shown_key(missing)} was never stored"] if missing else []
    yield f"  {lead}{dot} {shown_key(each.key)}  {', '.join(notes)}"
    children = [child for child in state if child.parent == each.key and child.key not in seen]
    tee, bend, bar = ("\u251c\u2500 ", "\u2514\u2500 ", "\u2502  ") if unicode else ("|- ", "`- ", "|  ")
    for number, child in enumerate(children, start=1):
        last = number == len(children)
        yield from _branch(child, state, under + (bend if last else tee), under + ("   " if last else bar), seen, unicode=unicode)


def _tail(scenario: Scenario, rerun: str) -> str:
    lines = []
    if scenario.shown is not None:
        lines.append(f"shown again by {scenario.shown[0]} of {scenario.shown[1]} reruns; the backend is not deterministic")
    spec = scenario.spec or scenario.backend
    command = f"kvprefix rerun SCENARIO.json {spec}"
    lines.append(f"rerun     {rerun or command}")
    return "\n".join(lines)
