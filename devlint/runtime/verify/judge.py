"""What a run says of claims: each is confirmed, refuted, not reached, or open. Pure: values in, values out.

A claim speaks of the statement at which it stands. It is confirmed by what its rule says will happen, seen there or
traced back to there; an error elsewhere confirms nothing. It is refuted only by what cannot be if it is true. A
statement that ran without either is open: this run neither shows the fault nor excludes it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .evidence import Evidence, Failure, Place, Seen

CONFIRMED, REFUTED, NOT_REACHED, OPEN = "confirmed", "refuted", "not reached", "open"


@dataclass(frozen=True, slots=True)
class Claim:
    """A finding as plain values: its code, file (absolute path), and the rows of its statement from `row` to `last`."""

    code: str
    path: str
    row: int
    last: int

    def covers(self, place: Place) -> bool:
        """Whether a line belongs to the statement."""
        return place[0] == self.path and self.row <= place[1] <= self.last


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the run says of a claim, and why, in one line."""

    outcome: str
    reason: str = ""
    ends: bool = False
    """Whether the error that ended the program is what confirms the claim."""


@dataclass(frozen=True, slots=True)
class Extra:
    """What only running showed: a fault at a line, with what is to be known of it in one line."""

    path: str
    row: int
    message: str


class _Case:
    """One claim beside the evidence."""

    def __init__(self, claim: Claim, evidence: Evidence) -> None:
        self.claim = claim
        self.fatal = [failure for failure in evidence.failures if failure.fatal]
        self.end = evidence.end
        self.reached = any(claim.row <= row <= claim.last for row in evidence.lines.get(claim.path, ()))
        self._seen = [(seen, count) for seen, count in evidence.seen if claim.covers((seen.path, seen.row))]

    def seen(self, *kinds: str) -> list[tuple[Seen, int]]:
        """What was seen at the statement, of these kinds."""
        return [(seen, count) for seen, count in self._seen if seen.kind in kinds]

    def made_here(self) -> Failure | None:
        """The failure one of whose operands was put where it lay by the statement."""
        for failure in self.fatal:
            for operand in failure.operands:
                if any(map(self.claim.covers, operand.made)) and _odd(operand.device, failure):
                    return failure
        return None

    def stopped_here(self, words: str = "") -> Failure | None:
        """The failure in which the statement itself was what torch refused."""
        for failure in self.fatal:
            if failure.stack and self.claim.covers(failure.stack[0]) and re.search(words, failure.message):
                return failure
        return None

    def handed_on(self) -> Failure | None:
        """The failure of a tensor that the statement handed on."""
        for failure in self.fatal:
            for number, place in enumerate(failure.stack):
                if self.claim.covers(place) and number in failure.held:
                    return failure
        return self.made_here()

    def ended_here(self, words: str) -> str:
        """The error, with these words, that ended the program at the statement."""
        end = self.end
        if end.kind == "raised" and any(map(self.claim.covers, end.stack)) and re.search(words, end.message):
            return f"{end.error}: {_first_line(end.message)}"
        return ""

    def on_device(self) -> bool:
        """Whether the statement worked on an accelerator."""
        return bool(self.seen("device"))


def _odd(device: str, failure: Failure) -> bool:
    """Whether an operand's device is one that could be the wrong one: the host, or one of several accelerators."""
    devices = {operand.device for operand in failure.operands}
    return device == "cpu" or "cpu" not in devices or len(devices) == 1


def _confirmed(failure: Failure | None) -> Verdict | None:
    if failure is None:
        return None
    where = f" at {_short(failure.stack[0])}" if failure.stack else ""
    return Verdict(CONFIRMED, f"{failure.error}{where}: {_first_line(failure.message)}")


def _first_line(message: str) -> str:
    return message.partition("\n")[0]


def _short(place: Place) -> str:
    return f"{os.path.basename(place[0])}:{place[1]}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


_Judge = Callable[[_Case], Verdict | None]


def _discarded(case: _Case) -> Verdict | None:
    """DEV101: the statement threw away the copy of a tensor."""
    for seen, count in case.seen("dropped"):
        return Verdict(CONFIRMED, f"ran on a tensor {_times(count)}, {seen.what}, and dropped the copy")
    for seen, _ in case.seen("module"):
        return Verdict(REFUTED, f"the receiver is a Module ({seen.what}), which is moved in place")
    if case.seen("kept"):
        return Verdict(REFUTED, "the copy is used")
    for seen, _ in case.seen("unchanged"):
        return Verdict(OPEN, f"ran on a tensor that was on {seen.what} already")
    for seen, _ in case.seen("other"):
        return Verdict(OPEN, f"the receiver is a {seen.what}, whose method is its own")
    if case.end.kind == "raised" and re.search(_METHOD, case.end.message) and case.reached:
        return Verdict(CONFIRMED, f"{case.end.error}: {_first_line(case.end.message)}", ends=True)
    return None


def _left_behind(case: _Case) -> Verdict | None:
    """What a statement made, or failed to move, met tensors elsewhere."""
    verdict = _confirmed(case.made_here())
    if verdict is None and case.seen("left") and not case.fatal:
        return Verdict(REFUTED, "what was made here was moved on before it met anything on the device")
    return verdict


def _handed_over(case: _Case) -> Verdict | None:
    """DEV103: what the statement hands on lies elsewhere."""
    return _confirmed(case.handed_on()) or _worked(case)


def _meets(words: str = "") -> _Judge:
    """The statement itself is what torch refuses."""

    def judge(case: _Case) -> Verdict | None:
        return _confirmed(case.stopped_here(words)) or _worked(case)

    return judge


def _worked(case: _Case) -> Verdict | None:
    if case.on_device() and not case.fatal and case.end.kind != "raised":
        return Verdict(REFUTED, "ran on the device, and torch took it every time")
    return None


def _raises(words: str) -> _Judge:
    """The statement raises an error with these words."""

    def judge(case: _Case) -> Verdict | None:
        error = case.ended_here(words)
        return Verdict(CONFIRMED, error, ends=True) if error else _confirmed(case.stopped_here(words))

    return judge


def _loose(case: _Case) -> Verdict | None:
    """DEV203: a Module does not know what stands in its container."""
    for seen, _ in case.seen("loose"):
        return Verdict(CONFIRMED, f"{seen.what}, and none is among its modules and parameters")
    for seen, _ in case.seen("registered"):
        return Verdict(REFUTED, seen.what)
    return _confirmed(case.made_here())


def _loaded(case: _Case) -> Verdict | None:
    """DEV301, DEV303: tensors came back onto an accelerator that the saving machine chose."""
    for seen, count in case.seen("load"):
        if re.search(r"\w+:\d", seen.what):
            return Verdict(CONFIRMED, f"loaded {_times(count)}, {seen.what}")
    return _raises("Attempting to deserialize")(case)


def _wrapped(case: _Case) -> Verdict | None:
    """DEV501: DataParallel is at work."""
    for seen, _ in case.seen("wrapped"):
        return Verdict(CONFIRMED, f"DataParallel was made over {seen.what}")
    return None


def _deprecated(case: _Case) -> Verdict | None:
    """DEV804: torch warns."""
    for seen, _ in case.seen("deprecated"):
        return Verdict(CONFIRMED, _first_line(seen.what))
    return _raises("device_type")(case)


def _compared(case: _Case) -> Verdict | None:
    """DEV403: the comparison was made with what is never equal."""
    for seen, count in case.seen("comparison"):
        return Verdict(CONFIRMED, f"compared {_times(count)}: {seen.what}")
    return None


def _any(case: _Case) -> Verdict | None:
    """A rule without a judge of its own: an error about devices at the statement, or from what it made."""
    return _confirmed(case.stopped_here() or case.made_here())


_METHOD = r"must be Tensor, not (?:builtin_function_or_method|method)|'builtin_function_or_method' object"
"""What torch and Python say to a method in the place of what it returns."""
_LENGTHS = "'lengths' argument"
_INVALID = (
    r"Invalid device|Expected one of|takes no keyword|must be cuda device|must be xpu device|invalid device ordinal|"
    r"unexpected keyword argument|device type|non_blocking|positional argument"
)
_JUDGES: dict[str, _Judge] = {
    "DEV101": _discarded,
    "DEV102": _raises(r"has no attribute 'to'|has no attribute 'cuda'"),
    "DEV103": _handed_over,
    "DEV104": _meets("to numpy"),
    "DEV105": _meets(_LENGTHS),
    "DEV106": _left_behind,
    "DEV201": _left_behind,
    "DEV202": _left_behind,
    "DEV203": _loose,
    "DEV208": _left_behind,
    "DEV301": _loaded,
    "DEV302": _raises("map_location"),
    "DEV303": _loaded,
    "DEV401": _raises(_INVALID),
    "DEV402": _raises("invalid device ordinal"),
    "DEV403": _compared,
    "DEV501": _wrapped,
    "DEV601": _meets(),
    "DEV602": _meets("indices should be"),
    "DEV804": _deprecated,
}


def judge(claims: Iterable[Claim], evidence: Evidence) -> list[Verdict]:
    """One verdict per claim, in their order."""
    return [_judged(claim, evidence) for claim in claims]


def _judged(claim: Claim, evidence: Evidence) -> Verdict:
    case = _Case(claim, evidence)
    found = _JUDGES.get(claim.code, _any)(case)
    if found is not None:
        return found
    if case.reached:
        return Verdict(OPEN, "ran, and the run neither shows the fault nor excludes it")
    return Verdict(NOT_REACHED)


def explained(failure: Failure, claims: Iterable[Claim], verdicts: Iterable[Verdict]) -> bool:
    """Whether a confirmed claim stands where a failure happened, or where its operands were made."""
    places = {*failure.stack, *(place for operand in failure.operands for place in operand.made)}
    return any(
        verdict.outcome == CONFIRMED and any(map(claim.covers, places))
        for claim, verdict in zip(claims, verdicts, strict=True)
    )


def extras(claims: list[Claim], verdicts: list[Verdict], evidence: Evidence) -> list[Extra]:
    """The faults that no confirmed claim speaks of, each once, in the order of the files."""
    found: dict[tuple[str, int], Extra] = {}
    for failure in evidence.failures:
        if failure.fatal and failure.stack and not explained(failure, claims, verdicts):
            path, row = failure.stack[0]
            found.setdefault(
                (path, row), Extra(path, row, f"{failure.error}: {_first_line(failure.message)}{_by(failure)}")
            )
    for seen, count in evidence.seen:
        place = (seen.path, seen.row)
        if seen.kind == "dropped" and not any(claim.covers(place) for claim in claims):
            found.setdefault(place, Extra(*place, f"a copy was made and dropped {_times(count)}: {seen.what}"))
    return [found[place] for place in sorted(found)]


def _by(failure: Failure) -> str:
    """Which lines put the operands where they lay."""
    told = [
        f"{operand.device} from {', '.join(map(_short, operand.made))}" for operand in failure.operands if operand.made
    ]
    return f" ({'; '.join(dict.fromkeys(told))})" if told else ""
