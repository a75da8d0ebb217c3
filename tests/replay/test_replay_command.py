"""``kvprefix replay`` from the outside: what it prints, what it writes, and its exit code however it ends."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from rich.console import Console

import kvprefix_conformance.commands.replay as module
from kvprefix.errors import AdapterError, MissingDependencyError
from kvprefix.replay import SHIPPED, TraceReader, line_of
from kvprefix.replay.outcome import Evidence, Step, StopKind
from kvprefix_conformance.commands.group import group
from kvprefix_conformance.report.replay import LINE_EVERY_S, Bar, Lines, Played, rows
from kvprefix_conformance.target import Target

Plain = Callable[..., Any]


@attrs.frozen
class Ran:
    code: int
    out: str
    err: str


@pytest.fixture
def kvprefix(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    """Run the command line in this process."""

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            group.main([str(argument) for argument in arguments], "kvprefix")
        told = capsys.readouterr()
        return Ran(int(ended.value.code or 0), told.out, told.err)

    return run


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], None]:
    """Let every --store be this backend."""

    def use(backend: Any) -> None:
        monkeypatch.setattr(module, "resolve", lambda spec, *_more: Target(spec or "plain", lambda: backend, spec))

    return use


@pytest.fixture
def trace(tmp_path: Path) -> Callable[..., Path]:
    """The shipped trace with some lines replaced by others."""

    def write(**replaced: str) -> Path:
        lines = SHIPPED["small"].read_text().splitlines(keepends=True)
        for number, text in replaced.items():
            lines[int(number.lstrip("line")) - 1] = text + "\n"
        path = tmp_path / "trace.jsonl"
        path.write_text("".join(lines))
        return path

    return write


# -- a good run ------------------------------------------------------------------------------------------------------------------


def test_the_shipped_trace_runs_through_the_reference(kvprefix: Callable[..., Ran]) -> None:
    ran = kvprefix("replay", "small", "--capacity", 400)
    table = dict(line.split("  ", 1) for line in ran.out.splitlines() if not line.startswith(" "))
    assert ran.code == 0
    assert table["trace"].strip() == "small"
    assert table["store"].strip().startswith("reference, capacity 400 blocks of 64 bytes")
    assert table["requests"].strip() == "262"
    assert table["orphans"].strip().startswith("at most 0, ")
    assert table["bytes verified"].strip().endswith(" 0 wrong")
    assert ran.err == ""


def test_the_result_as_json_has_stdout_for_itself(kvprefix: Callable[..., Ran]) -> None:
    ran = kvprefix("replay", "small", "--json", "--store", "reference:flat-lru", "--capacity", 300, "--order", "leaf-first")
    document = json.loads(ran.out)
    assert document["format"] == "kvprefix-replay"
    assert document["counters"]["requests"] == 262
    assert document["settings"]["order"] == "leaf-first"
    assert document["trace"] == {"source": "small", "bad_lines": 0, "blocks": 1563}
    assert "hits by prefix" in ran.err


def test_the_result_can_be_written(kvprefix: Callable[..., Ran], tmp_path: Path) -> None:
    ran = kvprefix("replay", "small", "--out", tmp_path / "new" / "result.json", "--sample-every", 50)
    document = json.loads((tmp_path / "new" / "result.json").read_text())
    assert ran.code == 0
    assert [sample["request"] for sample in document["samples"]] == [50, 100, 150, 200, 250, 262]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["result.json"]


def test_a_slice_ends_before_what_follows_is_read(kvprefix: Callable[..., Ran], trace: Callable[..., Path]) -> None:
    ran = kvprefix("replay", trace(line11="bad"), "--requests", 10, "--json")
    assert ran.code == 0
    assert json.loads(ran.out)["counters"]["requests"] == 10


def test_capacity_can_be_given_in_bytes(kvprefix: Callable[..., Ran]) -> None:
    document = json.loads(kvprefix("replay", "small", "--json", "--capacity-bytes", 10_050, "--block-bytes", 100).out)
    assert (document["capacity_blocks"], document["block_bytes"]) == (100, 100)
    assert document["geometry"]["capacity_bytes"] == 10_000


def test_another_seed_gives_other_keys(kvprefix: Callable[..., Ran], plain: Plain, store: Callable[[Any], None]) -> None:
    backend = plain()
    store(backend)
    kvprefix("replay", "small", "--seed", 5, "--requests", 1)
    assert set(backend.plain.blocks) == {f"replay-5/{number}" for number in range(8)}
    assert backend.closed


def test_a_trace_comes_from_standard_input(kvprefix: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    packed = io.BytesIO(gzip.compress(SHIPPED["small"].read_bytes()))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(packed)))
    assert json.loads(kvprefix("replay", "-", "--json").out)["counters"]["requests"] == 262


def test_a_file_may_have_the_name_of_a_shipped_trace(
    kvprefix: Callable[..., Ran], trace: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = trace(line2="bad")
    path.rename(path.with_name("small"))
    monkeypatch.chdir(path.parent)
    assert kvprefix("replay", "small").code == 0
    assert "small:2: not JSON" in kvprefix("replay", "./small").err


# -- bad traces ------------------------------------------------------------------------------------------------------------------


def test_a_bad_line_ends_the_replay_and_what_ran_is_shown(kvprefix: Callable[..., Ran], trace: Callable[..., Path]) -> None:
    path = trace(line101='{"timestamp": true}')
    ran = kvprefix("replay", path)
    assert ran.code == 2
    assert f"kvprefix: the trace cannot be used: {path}:101: no field" in ran.err
    assert "\nrequests            100\n" in ran.out


def test_bad_lines_can_be_skipped_and_are_counted(kvprefix: Callable[..., Ran], trace: Callable[..., Path]) -> None:
    bad = {f"line{number}": "bad" for number in range(100, 115)}
    ran = kvprefix("replay", trace(**bad), "--keep-going")
    assert ran.code == 0
    assert ran.err.count("not JSON") == 10
    assert "bad lines skipped: 15 (the first 10 are shown above)" in ran.err
    assert "trace.jsonl, 15 bad lines skipped" in ran.out


def test_a_trace_that_cannot_be_read_starts_no_store(
    kvprefix: Callable[..., Ran], tmp_path: Path, plain: Plain, store: Callable[[Any], None]
) -> None:
    (tmp_path / "empty").touch()
    for source, says in [("none", "no such file"), ("", "is a directory"), ("empty", "it is empty")]:
        backend = plain()
        store(backend)
        ran = kvprefix("replay", tmp_path / source)
        assert (ran.code, ran.out) == (2, "")
        assert says in ran.err
        assert not hasattr(backend, "plain")


# -- bad usage -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing argument 'TRACE'"),
        (["small", "--capacity", "0"], "0 is not in the range"),
        (["small", "--capacity", "many"], "not a valid integer"),
        (["small", "--capacity", "5", "--capacity-bytes", "500"], "both --capacity and --capacity-bytes"),
        (["small", "--capacity-bytes", "63"], "63 bytes hold no block of 64 bytes"),
        (["small", "--order", "sideways"], "'sideways' is not one of"),
        (["small", "--requests", "-1"], "-1 is not in the range"),
        (["small", "--store", "referense"], "unknown backend 'referense'"),
        (["small", "--store", "reference:nope"], "no preset 'nope'"),
        (["small", "--lease-ms", "5"], "--lease-ms is for --store mooncake"),
        (["small", "--watermark", "0"], "0.0 is not in the range"),
        (["small", "--store", "reference", "--", "./adapter"], "both a backend ('reference') and a command"),
        (["small", "--", "no-such-adapter-program"], "there is no program 'no-such-adapter-program'"),
        (["small", "--bogus"], "No such option"),
        (["generate"], "Missing argument 'FILE'"),
        (["generate", "-", "--turns", "4,3,2,1"], "rising"),
        (["generate", "-", "--sessions", "0"], "sessions is 0"),
    ],
    ids=" ".join,
)
def test_bad_usage_is_told(kvprefix: Callable[..., Ran], arguments: list[str], says: str) -> None:
    ran = kvprefix("replay", *arguments)
    assert ran.code == 2
    assert says in ran.err
    assert ran.out == ""


def test_what_must_be_installed_is_told(kvprefix: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise MissingDependencyError("There is no such server.", "Run: install it")

    monkeypatch.setattr(module, "resolve", lambda *_arguments: Target("x", missing, "x"))
    ran = kvprefix("replay", "small")
    assert (ran.code, ran.err) == (2, "kvprefix: There is no such server. Run: install it\n")


# -- bad stores ------------------------------------------------------------------------------------------------------------------


def test_a_breach_is_told_with_what_ran(kvprefix: Callable[..., Ran], plain: Plain, store: Callable[[Any], None]) -> None:
    def spoil(client: Any) -> None:
        get = client.get
        client.get = lambda key: (value := get(key)) and value[::-1]

    store(plain(change=spoil))
    ran = kvprefix("replay", "small")
    assert ran.code == 1
    assert "kvprefix: STO-1 is broken at request 3: get of 'replay-0/8' returns 64 bytes" in ran.err
    assert "\nrequests            3\n" in ran.out


def test_a_store_that_dies_midway_is_told_with_what_ran(
    kvprefix: Callable[..., Ran], plain: Plain, store: Callable[[Any], None], tmp_path: Path
) -> None:
    def die_late(client: Any) -> None:
        client.dies_at = 1000

    backend = plain(change=die_late)
    store(backend)
    ran = kvprefix("replay", "small", "--out", tmp_path / "result.json")
    document = json.loads((tmp_path / "result.json").read_text())
    assert ran.code == 1
    assert "the backend failed at request" in ran.err
    assert document["stop"]["kind"] == "backend"
    assert 0 < document["counters"]["requests"] < 262
    assert backend.closed


def test_a_store_that_does_not_start_is_a_broken_adapter(
    kvprefix: Callable[..., Ran], plain: Plain, store: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = plain()

    def start(_capacity: int) -> Any:
        raise AdapterError("died", "on the way up")

    monkeypatch.setattr(backend, "start", start)
    store(backend)
    ran = kvprefix("replay", "small")
    assert (ran.code, ran.out, ran.err) == (4, "", "kvprefix: adapter died: on the way up\n")
    assert backend.closed


def test_an_interrupt_shows_what_ran(kvprefix: Callable[..., Ran], plain: Plain, store: Callable[[Any], None]) -> None:
    def interrupted(client: Any) -> None:
        put, stored = client.put, []

        def putting(*arguments: Any, **more: Any) -> Any:
            stored.append(1)
            if len(stored) == 500:
                raise KeyboardInterrupt
            return put(*arguments, **more)

        client.put = putting

    backend = plain(change=interrupted)
    store(backend)
    ran = kvprefix("replay", "small", "--capacity", 200)
    assert ran.code == 130
    assert "interrupted at request" in ran.err
    assert "hits by prefix" in ran.out
    assert backend.closed


def test_names_from_outside_are_made_printable(kvprefix: Callable[..., Ran], plain: Plain, store: Callable[[Any], None]) -> None:
    store(plain({"name": "evil\x1b[31m", "version": "\u202e1"}))
    ran = kvprefix("replay", "small")
    assert "\x1b" not in ran.out
    assert "evil\\x1b[31m \\u202e1" in ran.out


# -- files that cannot be written ------------------------------------------------------------------------------------------------


def test_a_result_that_cannot_be_written_is_still_printed(kvprefix: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out, says in [(tmp_path, "is a directory"), (tmp_path / "file" / "result.json", "cannot write")]:
        ran = kvprefix("replay", "small", "--out", out)
        assert ran.code == 2
        assert says in ran.err
        assert "hits by prefix" in ran.out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_disk_is_told(kvprefix: Callable[..., Ran]) -> None:
    ran = kvprefix("replay", "small", "--out", "/dev/full")
    assert ran.code == 2
    assert "cannot write /dev/full: No space left on device; what is printed above is all that is kept" in ran.err
    assert kvprefix("replay", "generate", "/dev/full").code == 2
    assert Path("/dev/full").is_char_device()


# -- generate --------------------------------------------------------------------------------------------------------------------


def test_the_shipped_trace_can_be_made_again(kvprefix: Callable[..., Ran], tmp_path: Path) -> None:
    ran = kvprefix("replay", "generate", tmp_path / "t")
    assert (ran.code, ran.err) == (0, "kvprefix: 262 requests, 5,003 blocks, 1,563 of them different\n")
    assert (tmp_path / "t").read_bytes() == SHIPPED["small"].read_bytes()
    assert kvprefix("replay", "generate", "-").out == SHIPPED["small"].read_text()


def test_every_knob_is_an_option(kvprefix: Callable[..., Ran], tmp_path: Path) -> None:
    knobs = "--seed 9 --sessions 3 --turns 2 --branching 0.5 --system-prompts 1 --system-tokens 512 --prompt-tokens 1,2,3,4"
    more = "--output-tokens 10 --arrival-ms 100 --think-ms 7 --max-tokens 9999"
    assert kvprefix("replay", "generate", tmp_path / "t", *knobs.split(), *more.split()).code == 0
    requests = list(TraceReader(tmp_path / "t"))
    assert len(requests) == 6
    assert [request.timestamp for request in requests] == [0, 7, 100, 107, 200, 207]
    assert {request.output_length for request in requests} == {10}


def test_a_trace_that_cannot_be_written_leaves_nothing(kvprefix: Callable[..., Ran], tmp_path: Path) -> None:
    ran = kvprefix("replay", "generate", tmp_path / "none" / "t")
    assert ran.code == 2
    assert "No such file" in ran.err
    assert kvprefix("replay", "generate", tmp_path).code == 2
    assert list(tmp_path.iterdir()) == []


def test_help_names_both_forms(kvprefix: Callable[..., Ran]) -> None:
    assert "kvprefix replay generate FILE" in " ".join(kvprefix("replay", "--help").out.split())
    assert "Usage: kvprefix replay generate [OPTIONS] FILE" in kvprefix("replay", "generate", "--help").out


# -- progress and table ----------------------------------------------------------------------------------------------------------


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    times = iter([0.0, 1.0, LINE_EVERY_S, LINE_EVERY_S + 1])
    out = io.StringIO()
    lines = Lines(Console(file=out, width=200), clock=lambda: next(times))
    for number in range(1, 4):
        lines(Step(number, 10, 5, 5, 2))
    lines.stop()
    assert out.getvalue() == "replay: 2 requests, 20 blocks, 50.00% hits, 2 orphans\n"


def test_progress_on_a_terminal_is_a_bar_that_goes_away() -> None:
    out = io.StringIO()
    bar = Bar(Console(file=out, width=120, force_terminal=True), lambda: 0.5)
    for number in range(1, 41):
        bar(Step(number, 10, 5, 5, None))
    bar.stop()
    bar.stop()
    assert "40 requests, 400 blocks, 50.00% hits" in out.getvalue()


def played(plain: Plain, **declares: Any) -> Played:
    from kvprefix.replay.run import Options, replay

    outcome = replay(TraceReader(SHIPPED["small"]), plain(declares, offers=("match",)), Options(100))
    return Played(outcome, "small", 0, 1563, 2.0)


def test_the_table_says_what_is_not_known(plain: Plain) -> None:
    ran = played(plain, reports_evictions=False)
    assert ran.outcome.evidence is Evidence.NONE
    told = dict(rows(ran))
    assert told["hits behind a hole"] == told["evicted"] == "not known"
    assert told["orphans"].startswith("not known: ")


def test_the_table_tells_refusals_and_what_went(plain: Plain) -> None:
    ran = played(plain)
    ran.outcome.counters.refused = {"NO_SPACE": 1200, "PARENT_MISSING": 3}
    ran.outcome.counters.not_tried = 7
    ran.outcome.counters.vanished = 2
    told = dict(rows(attrs.evolve(ran, bad_lines=1)))
    assert told["not stored"] == "NO_SPACE 1,200, PARENT_MISSING 3; 7 behind them were not tried"
    assert told["  gone before reading"] == "2"
    assert told["trace"] == "small, 1 bad line skipped"
    assert told["time"] == "2.0 s, 2,502 accesses a second"


def test_every_end_has_an_exit_code() -> None:
    assert set(module._EXIT_CODES) == set(StopKind)


def test_lines_of_a_trace_are_written_as_the_original_ones_are() -> None:
    first = SHIPPED["small"].read_text().partition("\n")[0]
    assert first.startswith('{"timestamp": 0, "input_length": 3729, "output_length": 803, "hash_ids": [0, 1, ')
    assert line_of(next(iter(TraceReader(SHIPPED["small"])))) == first + "\n"
