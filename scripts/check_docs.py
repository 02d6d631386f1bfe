#!/usr/bin/env python3
"""Checks that README.md and docs/ name only things that exist, and that README stays short.

    scripts/check_docs.py

It checks links and their anchors, the files of the glossary, the claims in the figures, and
code: paths and file names, make targets, programs with their subcommands and flags, options and
other names of the code.
"""
import re
import shlex
import sys

import prose

MAX_README_LINES = 150
GLOSSARY = "docs/glossary.md"
FIGURES = "docs/figures.md"
ROOMS = ("engine_race/", "include/", "harness/", "test/", "scripts/", "docs/", "python/",
         "cluster/", "bindings/")
MAKEFILES = ("Makefile", "test/runs.mk", "cluster/cluster.mk", "scripts/checks.mk",
             "scripts/package/package.mk", "bindings/java/java.mk")
BUILT = ("build/", "out/", "bin/", "lib/")


def anchor(heading):
    """The anchor that GitHub makes of a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower())
    return kept.strip().replace(" ", "-")


class Tree:
    """The names that documents may use."""

    def __init__(self):
        self.files = set(prose.tracked())
        self.folders = {name[:i] for name in self.files for i, c in enumerate(name) if c == "/"}
        self.base_names = {name.rsplit("/", 1)[-1] for name in self.files}
        # $(ROOMS:%=test-%) makes targets of the form test-%.
        makefile = re.sub(r"\$\(\w+:%=([^)]*)\)", r"\1", "\n".join(map(self.read, MAKEFILES)))
        self.targets = set()
        for line in makefile.split("\n"):
            found = re.match(r"([\w%$().:,/ -]+?):(?!=)", line)
            if found and not line.startswith("\t"):
                self.targets.update(found.group(1).split())
        for line in re.findall(r"^\.PHONY:((?:.*\\\n)*.*)", makefile, re.MULTILINE):
            self.targets.update(line.replace("\\\n", " ").split())
        # The tests of these checks name things that do not exist.
        self.code = "\n".join(self.read(name) for name in sorted(self.files)
                              if (name.endswith((".h", ".cc", ".sh", ".py", ".go", ".rs"))
                                  and not name.startswith("test/scripts/"))
                              or name in (*MAKEFILES, "scripts/plot", "scripts/flame"))
        self.flags = set(re.findall(r"--[a-z][\w-]*", self.code))
        self.words = set(re.findall(r"[\w-]+", self.code))
        self.anchors = {
            path: {anchor(text.words) for text in prose.texts_of(path) if text.kind == "heading"}
            for path in prose.documents()}

    @staticmethod
    def read(name):
        return (prose.ROOT / name).read_text(encoding="utf-8", errors="replace")

    def has_path(self, path):
        path = path.rstrip("/")
        if "*" in path:
            pattern = re.compile(re.escape(path).replace(r"\*", "[^/]*"))
            return any(pattern.fullmatch(name) for name in self.files | self.folders)
        return path in self.files or path in self.folders

    def has_target(self, target):
        if target in self.targets:
            return True
        room = target.removeprefix("test-")
        if target.startswith("test-") and room != "x":
            return "test-%" in self.targets and (self.has_path(f"test/{room}")
                                                 or self.has_path(f"test/harness/{room}"))
        return any("%" in known and re.fullmatch(known.replace("%", ".+"), target)
                   for known in self.targets)


def code_spans(path):
    """(line, text) of each code span, and of each line of a fenced block."""
    fenced = False
    for number, line in enumerate((prose.ROOT / path).read_text().split("\n"), 1):
        if line.strip().startswith("```"):
            fenced = not fenced
        elif fenced:
            yield number, line.strip()
        else:
            for span in re.findall(r"`([^`]+)`", line):
                yield number, span


def faults_of_command(words, tree):
    program = words[0]
    if program == "make":
        for word in words[1:]:
            if "=" in word or word.startswith("-"):
                continue
            if word.startswith("bin/"):
                yield from faults_of_command([word], tree)
                continue
            # Capitals stand for any name: test-ROOM is a target if test-% is one.
            if not tree.has_target(re.sub(r"[A-Z]+", "x", word)):
                yield f"there is no make target {word}"
    elif program.startswith("bin/"):
        mains = (f"harness/apps/{program[4:]}_main.cc", f"scripts/{program[4:]}/cli.py",
                 f"cluster/cmd/{program[4:]}",
                 program.replace("bin/cluster-bench-", "cluster/bench/"))
        if not any(tree.has_path(main) for main in mains):
            yield f"there is no program {program}"
        elif len(words) > 1 and re.fullmatch(r"[a-z]+", words[1]):
            if f'"{words[1]}"' not in tree.code:
                yield f"{program} knows no {words[1]}"
    elif program.startswith("scripts/") and not tree.has_path(program):
        yield f"there is no {program}"
    for word in words[1:]:
        if word.startswith("--") and program.startswith(("bin/", "scripts/")):
            flag = re.match(r"--[\w-]+", word)
            if flag and flag.group(0) not in tree.flags | {"--help"}:
                yield f"no program knows {flag.group(0)}"


def faults_of_span(span, tree):
    """A span of code: commands, or one name."""
    for command in re.split(r"&&|\|\||[|;]", span):
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            words = command.split()
        while words and re.match(r"\w+=", words[0]):
            words.pop(0)
        if words and (words[0] == "make" or words[0].startswith(("bin/", "scripts/"))):
            yield from faults_of_command(words, tree)
    words = span.split()
    if len(words) != 1:
        return
    word = words[0].rstrip(".,;:")
    if word.startswith(("bin/", "scripts/")):
        return
    if word.startswith(ROOMS):
        if not re.search(r"[A-Z]{2,}|\.\.\.", word) and not tree.has_path(word):
            yield f"there is no {word}"
    elif re.fullmatch(r"[\w.-]+\.(?:h|cc|go|py|sh|md|patch)", word):
        if word not in tree.base_names:
            yield f"no file is called {word}"
    elif re.fullmatch(r"[\w-]+/[\w/.*-]+\.(?:h|cc|go|py|sh)", word):
        if not any(tree.has_path(room + word) for room in ROOMS) and not word.startswith(BUILT):
            yield f"there is no {word} in any room"
    elif re.fullmatch(r"(?:\w+::)+\w+(?:\(\))?", word):
        for name in re.findall(r"\w+", word):
            if name not in tree.words and name not in ("std",):
                yield f"the code has no {name}"
    elif re.fullmatch(r"k[A-Z]\w+", word) and word not in tree.words:
        yield f"the code has no {word}"


def faults_of_links(path, tree):
    content = (prose.ROOT / path).read_text()
    for number, line in enumerate(content.split("\n"), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if "://" in target:
                continue
            name, _, heading = target.partition("#")
            folder = path.rsplit("/", 1)[0] + "/" if "/" in path else ""
            full = (prose.ROOT / folder / name).resolve() if name else prose.ROOT / path
            if not full.exists():
                yield number, f"the link leads nowhere: {target}"
                continue
            relative = str(full.relative_to(prose.ROOT))
            if heading and heading not in tree.anchors.get(relative, {heading}):
                yield number, f"{relative} has no heading for #{heading}"


def faults_of_figures(tree):
    """Checks that some bench measures each claim in the tables."""
    for number, line in enumerate((prose.ROOT / FIGURES).read_text().split("\n"), 1):
        claim = re.match(r"\| `(\w+)` \|", line)
        if claim and f'"{claim.group(1)}"' not in tree.code:
            yield number, f"no bench measures {claim.group(1)}"


def faults_of_glossary(tree):
    word = None
    seen = set()
    fields = {}
    for number, line in enumerate((prose.ROOT / GLOSSARY).read_text().split("\n") + ["## "], 1):
        if line.startswith("## "):
            if word is not None and ("Where" not in fields or not fields.get("text")):
                yield number, f'"{word}" needs a sentence and a line "Where"'
            if line[3:] and word is not None and line[3:].lower() < word.lower():
                yield number, f'"{line[3:]}" stands behind "{word}": order the entries'
            if line[3:] in seen:
                yield number, f'"{line[3:]}" has two entries'
            word, fields = line[3:], {}
            seen.add(word)
        elif line.startswith("- Where: "):
            fields["Where"] = True
            named = re.findall(r"`([^`]+)`", line)
            if not named or not all(name in tree.files for name in named):
                yield number, f'"{word}": there is no {line[len("- Where: "):]}'
        elif line and not line.startswith("-"):
            fields["text"] = True


def main():
    tree = Tree()
    bad = 0

    def complain(path, number, why):
        nonlocal bad
        print(f"{path}:{number}: {why}")
        bad += 1

    lines = len(tree.read("README.md").splitlines())
    if lines > MAX_README_LINES:
        complain("README.md", lines, f"more than {MAX_README_LINES} lines")
    for path in prose.documents():
        for number, why in faults_of_links(path, tree):
            complain(path, number, why)
        for number, span in code_spans(path):
            for why in faults_of_span(span, tree):
                complain(path, number, why)
    for number, why in faults_of_glossary(tree):
        complain(GLOSSARY, number, why)
    for number, why in faults_of_figures(tree):
        complain(FIGURES, number, why)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
