"""Finds the sentences of Markdown files and of comments in C++, Go and Rust. For check_prose.py and check_docs.py."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent

# A code span counts as one word, whatever is in it.
CODE = "`code`"
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|vs|cf|approx|No)\.$")
LIST_ITEM = re.compile(r"^(?:[-*]|\d+\.)\s+")


class Text:
    """A paragraph, a list item, a table cell or a comment, with the line on which it begins."""

    def __init__(self, path, line, words, kind):
        self.path = path
        self.line = line
        self.words = words
        self.kind = kind  # "paragraph", "heading", "cell", "comment"

    def sentences(self):
        """The sentences, with code spans and links replaced."""
        text = re.sub(r"``.*?``|`[^`]*`", CODE, self.words)
        text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
        text = re.sub(r"\*\*|__", "", text)
        begin = 0
        for end in re.finditer(r"[.!?][\"')\]]*(?=\s|$)", text):
            if ABBREVIATIONS.search(text[begin:end.end()]):
                continue
            sentence = text[begin:end.end()].strip()
            begin = end.end()
            if sentence:
                yield sentence
        if text[begin:].strip():
            yield text[begin:].strip()


def word_count(sentence):
    return sum(1 for word in sentence.split() if re.search(r"\w", word))


def tracked(*patterns):
    """The files of the repository, including files that git does not track yet."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
    return sorted({name for name in listed if name and (ROOT / name).exists()})


def documents():
    return ["README.md"] + tracked("docs/*.md")


def comment_files():
    return [name for name in tracked("*.h", "*.cc", "*.go", "*.rs")
            if name.split("/")[0] in ("include", "engine_race", "harness", "test", "cluster",
                                      "bindings")]


def markdown_texts(path, content):
    texts = []
    fenced = False
    current = None  # the paragraph or list item that lines are added to
    for number, line in enumerate(content.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("```"):
            fenced = not fenced
            current = None
        elif fenced or not stripped or re.fullmatch(r"[-=*_ |:]+", stripped):
            current = None
        elif stripped.startswith("#"):
            texts.append(Text(path, number, stripped.lstrip("# "), "heading"))
            current = None
        elif stripped.startswith("|"):
            # A pipe in a code span is escaped in Markdown's tables.
            for cell in re.split(r"(?<!\\)\|", stripped.strip("|")):
                if cell.strip():
                    texts.append(Text(path, number, cell.strip(), "cell"))
            current = None
        elif LIST_ITEM.match(stripped) or current is None:
            current = Text(path, number, LIST_ITEM.sub("", stripped), "paragraph")
            texts.append(current)
        else:
            current.words += " " + stripped
    return texts


def is_no_prose_of_go(space, words):
    """Directives, headings and code in a comment, and lines of C for cgo."""
    return words.startswith(("\t", "#", "nolint", "lint:")) or (
        not space and re.match(r"[a-z]+(?::\S|\s|$)", words) is not None)


def plain_comments_of_rust(content):
    """The content with its doc comments as ordinary ones, without their programs and headings."""
    fenced = False
    for line in content.split("\n"):
        found = re.match(r"\s*//[/!](.*)", line)
        if not found:
            yield line
            continue
        words = found.group(1).strip()
        fence = words.startswith("```")
        fenced ^= fence
        is_prose = not fence and not fenced and not re.match(r"#|\[[^]]*\]: ", words)
        yield "//" + found.group(1) if is_prose else "//"


def comment_texts(path, content):
    is_go = path.endswith(".go")
    if path.endswith(".rs"):
        content = "\n".join(plain_comments_of_rust(content))
    # Statements of Go end anywhere, and gofmt puts a blank before and behind the slashes.
    behind_code = re.compile(r"\S.*?\s// (.*)" if is_go else r"[;{},)]\s*// (.*)")
    texts = []
    current = None
    for number, line in enumerate(content.split("\n"), 1):
        found = re.match(r"\s*//(?P<space> ?)(?P<words>.*)", line)
        if not found:
            current = None
            # A comment behind code stands alone. Slashes in strings are not comments.
            behind = behind_code.search(line)
            if behind:
                texts.append(Text(path, number, behind.group(1), "comment"))
            continue
        words = found.group("words")
        if not words.strip() or words.startswith(("---", "NOLINT")):
            current = None
        elif is_go and is_no_prose_of_go(found.group("space"), words):
            current = None
        elif LIST_ITEM.match(words.strip()):
            current = Text(path, number, LIST_ITEM.sub("", words.strip()), "comment")
            current.is_item = True
            texts.append(current)
        elif words.startswith("  ") and not getattr(current, "is_item", False):
            # Tables and examples are indented, each line by itself.
            texts.append(Text(path, number, words.strip(), "comment"))
            current = None
        elif current is None:
            current = Text(path, number, words.strip(), "comment")
            texts.append(current)
        else:
            current.words += " " + words.strip()
    return texts


def texts_of(path):
    content = (ROOT / path).read_text(encoding="utf-8")
    return (markdown_texts if path.endswith(".md") else comment_texts)(path, content)
