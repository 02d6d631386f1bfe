"""Draws small changes of the engine's sources, each of which a test should notice.

A `Change` replaces one line. Kinds: a comparison is turned, a condition is negated, `&&` and `||`
are exchanged, a call is left out, one is added to a number or taken from it. The sources are read
as text, so some changes do not compile; scripts/mutants.py draws another one then.

test/mutants/equivalents.txt names changes that alter nothing a program can observe. Each has the
source, the line, the changed line and the reason; a draw leaves them out.
"""

import dataclasses
import pathlib
import random
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
EQUIVALENTS = ROOT / "test" / "mutants" / "equivalents.txt"

TURNED = {"==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}
EXCHANGED = {"&&": "||", "||": "&&"}
# Lines that assert, that declare a template or that compile into nothing.
LEFT_ALONE = re.compile(r"\s*(#|template\b|ENGINE_RACE_ASSERT|ENGINE_RACE_UNREACHABLE|static_assert"
                        r"|using\b|namespace\b|friend\b|LOG_|Log\()")
COMPARISON = re.compile(r"(?<= )(==|!=|<=|>=|<|>)(?= )")
CONJUNCTION = re.compile(r"(?<= )(&&|\|\|)(?= )")
CONDITION = re.compile(r"\b(if|while) \(")
CALL = re.compile(r"\s+(?:\(void\))?[A-Za-z_]\w*(?:(?:::|\.|->)\w+|\[[^][]*\]|\(\))*\(.*\);$")
# A member's name, a shift and an index of a template are no numbers to change.
NUMBER = re.compile(r"(?<![\w.'<])(\d{1,6})(?![\w.'>])")
STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)+\'')


@dataclasses.dataclass(frozen=True)
class Change:
    """One line of a source, as it is and as a mutant has it. `line` counts from 1."""

    path: str
    line: int
    kind: str
    before: str
    after: str

    def key(self):
        return self.path, self.before.strip(), self.after.strip()

    def __str__(self):
        return (f"{self.path}:{self.line} {self.kind}: `{self.before.strip()}` became "
                f"`{self.after.strip()}`")

    def apply(self, tree):
        self._replace(tree, self.before, self.after)

    def undo(self, tree):
        self._replace(tree, self.after, self.before)

    def _replace(self, tree, old, new):
        path = pathlib.Path(tree) / self.path
        lines = path.read_text().split("\n")
        assert lines[self.line - 1] == old, f"{path}:{self.line} is another line"
        lines[self.line - 1] = new
        path.write_text("\n".join(lines))


def code_of(line):
    """The line, its strings and its comment blank: the columns stay."""
    line = STRING.sub(lambda found: '"' + "_" * (len(found.group()) - 2) + '"', line)
    return line.split("//", 1)[0].rstrip()


def closing(code, opening):
    """The column of the parenthesis that closes the one at `opening`; None if it is further down."""
    depth = 0
    for column in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[column], 0)
        if depth == 0:
            return column
    return None


def changes_of(path, text):
    """All changes of a source."""
    found = []
    previous = ";"
    for number, line in enumerate(text.split("\n"), 1):
        code = code_of(line)
        if not code.strip():
            continue
        if not LEFT_ALONE.match(code):
            for kind, after in _changed_lines(line, code, previous):
                found.append(Change(path, number, kind, line, after))
        previous = code
    return found


def _changed_lines(line, code, previous):
    if "operator" not in code:
        for match in COMPARISON.finditer(code):
            yield "comparison", _with(line, match.span(1), TURNED[match.group(1)])
    for match in CONJUNCTION.finditer(code):
        yield "conjunction", _with(line, match.span(1), EXCHANGED[match.group(1)])
    for match in CONDITION.finditer(code):
        end = closing(code, match.end() - 1)
        # `if (A a; condition)` is left alone.
        if end is not None and ";" not in code[match.end():end]:
            inner = line[match.end():end]
            yield "condition", _with(line, (match.end(), end), f"!({inner})")
    # A statement of its own: what comes before has ended.
    if CALL.match(code) and previous[-1] in ";{}:" and not code.lstrip().startswith("return"):
        if closing(code, code.index("(")) is not None:
            indent = len(line) - len(line.lstrip())
            yield "call", line[:indent] + ";"
    # Constants are mostly tuning, which changes no answer.
    for match in () if "constexpr" in code else NUMBER.finditer(code):
        value = int(match.group(1))
        yield "number", _with(line, match.span(1), str(value + 1))
        if value > 0:
            yield "number", _with(line, match.span(1), str(value - 1))


def _with(line, span, replacement):
    return line[:span[0]] + replacement + line[span[1]:]


def read_equivalents(path=EQUIVALENTS):
    """The noted changes: (source, line, changed line), each stripped."""
    notes = []
    for block in re.split(r"\n\s*\n", path.read_text().strip()):
        lines = [each for each in block.split("\n") if not each.startswith("#")]
        if not lines:
            continue
        if (len(lines) < 4 or not lines[1].startswith("- ") or not lines[2].startswith("+ ")
                or not all(each.startswith("= ") for each in lines[3:])):
            raise ValueError(f"{path.name}: a note is SOURCE, '- LINE', '+ CHANGED', '= REASON':\n"
                             f"{block}")
        notes.append((lines[0].strip(), lines[1][2:].strip(), lines[2][2:].strip()))
    return notes


def stale_equivalents(root=ROOT, path=EQUIVALENTS):
    """The notes whose change is none of their source any more."""
    stale = []
    for note in read_equivalents(path):
        source = root / note[0]
        known = source.exists() and note in {
            change.key() for change in changes_of(note[0], source.read_text())}
        if not known:
            stale.append(note)
    return stale


def draw(sources, seed, equivalents=(), root=ROOT):
    """Yields changes of `sources`, the kinds in turn; a seed gives the same ones each time."""
    by_kind = {}
    left_out = set(equivalents)
    for path in sorted(sources):
        for change in changes_of(path, (root / path).read_text()):
            if change.key() not in left_out:
                by_kind.setdefault(change.kind, []).append(change)
    chance = random.Random(seed)
    for kind in sorted(by_kind):
        chance.shuffle(by_kind[kind])
    while by_kind:
        for kind in sorted(by_kind):
            yield by_kind[kind].pop()
            if not by_kind[kind]:
                del by_kind[kind]
