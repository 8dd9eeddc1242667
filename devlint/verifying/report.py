"""What `devlint verify` prints: for people, and as JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from devlint.output import Display
from devlint.output.closing import count
from devlint.runtime.verify import judge
from devlint.runtime.verify.evidence import Evidence, Seen
from devlint.verifying.claims import Judged
from devlint.verifying.fixes import Proof
from devlint.verifying.pages import WRONG, BlockResult
from devlint.verifying.script import Outcome

_COLOURS = {judge.CONFIRMED: "red", judge.REFUTED: "green"}
_NOTES = {
    "wait": "the host waited for the device",
    "hidden copy": "copied without a transfer in sight",
    "host model": "parameters and their inputs stayed on the CPU",
}
_MOST = 10
"""Lines of one kind of note shown; JSON has all."""


def text(outcome: Outcome, display: Display) -> str:
    """One line per finding and per fault, then what was noted, then how the run ended and the counts."""
    lines = [_finding(item, display) for item in outcome.judged]
    lines += [
        f"{display.paint(display.path(extra.path), bold=True)}:{extra.row}: "
        f"{display.paint('seen only by running', fg='red')}: {extra.message}"
        for extra in outcome.extras
    ]
    notes = list(_notes(outcome.evidence, display))
    if lines and notes:
        notes.insert(0, "")
    closing = [*_ending(outcome), _counts(outcome)]
    return "\n".join([*lines, *notes, *([""] if lines or notes else []), *closing]) + "\n"


def _finding(item: Judged, display: Display) -> str:
    finding, verdict = item.finding, item.verdict
    start = f"{display.paint(display.path(finding.path), bold=True)}:{finding.start.row}:{finding.start.column}:"
    word = display.paint(verdict.outcome, fg=_COLOURS.get(verdict.outcome))
    reason = f": {verdict.reason}" if verdict.reason else ""
    return f"{start} {display.paint(finding.code, fg='red', bold=True)} {finding.name} {word}{reason}"


def _notes(evidence: Evidence, display: Display) -> Iterator[str]:
    for kind, words in _NOTES.items():
        counts: Counter[tuple[str, int, str]] = Counter()
        for seen, number in evidence.seen:
            if seen.kind == kind:
                counts[seen.path, seen.row, seen.what] += number
        if counts:
            yield f"note: {words}:"
        for (path, row, what), number in counts.most_common(_MOST):
            yield f"  {display.path(path)}:{row}: {number} x{f' {what}' if what else ''}"
        if len(counts) > _MOST:
            yield f"  and at {count(len(counts) - _MOST, 'more line')}"
    caught = [failure for failure in evidence.failures if not failure.fatal and failure.stack]
    if caught:
        yield "note: errors about devices that the program caught:"
    for failure in caught[:_MOST]:
        path, row = failure.stack[0]
        yield f"  {display.path(path)}:{row}: {failure.error}: {failure.message.partition(chr(10))[0]}"


def _ending(outcome: Outcome) -> list[str]:
    end = outcome.evidence.end
    if end.kind == "late":
        return ["the program was stopped when its time was up: what follows was seen until then"]
    if end.kind == "died":
        how = f"signal {-end.code}" if end.code < 0 else f"exit code {end.code}"
        return [f"the program's process died ({how}): what follows was seen until then"]
    if end.kind == "exited":
        return [f"the program left with exit code {end.code}"]
    if outcome.failed:
        return [f"the program failed for another cause: {end.error}: {end.message.partition(chr(10))[0]}"]
    return []


def _counts(outcome: Outcome) -> str:
    numbers = Counter(item.verdict.outcome for item in outcome.judged)
    order = (judge.CONFIRMED, judge.REFUTED, judge.OPEN, judge.NOT_REACHED)
    parts = [f"{numbers[word]} {word}" for word in order if numbers[word]]
    if outcome.extras:
        parts.append(f"{len(outcome.extras)} seen only by running")
    files = count(len(outcome.evidence.files), "file")
    return f"{', '.join(parts) or 'nothing found'} in {files} that ran on {outcome.evidence.device}"


def as_json(outcome: Outcome) -> str:
    """One object; rows and columns count from 1, paths are absolute."""
    evidence = outcome.evidence
    data = {
        "device": evidence.device,
        "end": {"kind": evidence.end.kind, "code": evidence.end.code, "error": evidence.end.error,
                "message": evidence.end.message},
        "files": evidence.files,
        "findings": [_object(item) for item in outcome.judged],
        "seen_only_by_running": [
            {"filename": extra.path, "row": extra.row, "message": extra.message} for extra in outcome.extras
        ],
        "waits": _counted(evidence.seen, "wait"),
        "copies": _counted(evidence.seen, "copy"),
        "hidden_copies": _counted(evidence.seen, "hidden copy"),
        "stayed_on_the_cpu": _counted(evidence.seen, "host model"),
        "caught": [
            {"filename": failure.stack[0][0], "row": failure.stack[0][1], "message": failure.message}
            for failure in evidence.failures
            if failure.stack and not failure.fatal
        ],
    }  # fmt: skip
    return json.dumps(data, indent=2) + "\n"


def _object(item: Judged) -> dict[str, object]:
    finding = item.finding
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "filename": finding.path,
        "location": {"row": finding.start.row, "column": finding.start.column},
        "end_location": {"row": finding.end.row, "column": finding.end.column},
        "outcome": item.verdict.outcome,
        "reason": item.verdict.reason,
    }


def _counted(seen: Sequence[tuple[Seen, int]], kind: str) -> list[dict[str, object]]:
    return [
        {"filename": item.path, "row": item.row, "what": item.what, "count": number}
        for item, number in seen
        if item.kind == kind
    ]


def pages_text(results: Sequence[BlockResult], device: str, display: Display) -> str:
    """One line per block of the rule book, and how many there are of each kind."""
    lines = []
    for result in results:
        colour = "red" if result.outcome == WRONG else None
        reason = f": {result.reason.partition(chr(10))[0]}" if result.reason else ""
        where = f"{result.page.code} {result.block.kind} (row {result.block.row})"
        lines.append(f"{where} {display.paint(result.outcome, fg=colour)}{reason}")
    numbers = Counter(f"{result.block.kind} {result.outcome}" for result in results)
    counts = ", ".join(f"{number} {words}" for words, number in sorted(numbers.items()))
    return "\n".join([*lines, "", f"{counts}; on {device}"]) + "\n"


def proofs_text(proofs: Sequence[Proof], display: Display) -> str:
    """For each program the fixes with what showed before them, and what running before and after says of them."""
    lines = []
    for proof in proofs:
        lines.append(f"{display.paint(display.path(proof.program), bold=True)}, on {proof.device}:")
        for finding, verdict in proof.before:
            title = finding.fix.title if finding.fix else finding.name
            reason = f": {verdict.reason}" if verdict.reason else ""
            place = f"{display.path(finding.path)}:{finding.start.row}:"
            lines.append(f"  {place} {finding.code} {title}; before it {verdict.outcome}{reason}")
        lines += [f"  {note}" for note in proof.notes]
        lines += [f"  {display.paint('wrong', fg='red')}: {fault}" for fault in proof.faults]
    return "\n".join(lines or ["nothing to fix"]) + "\n"
