#!/usr/bin/env python3
"""Checks sentences: short, with a subject that is named, in the words of docs/glossary.md.

    scripts/check_prose.py

  long    more than 25 words; in documents and in comments of headers, of Go and of Rust
  who     begins with who, what, whoever, whatever or the same; likewise
  words   a phrase that the glossary rules out; in documents and in all comments
"""
import re
import sys

import prose

MAX_WORDS = 25
GLOSSARY = "docs/glossary.md"
SUBJECT = re.compile(r"(?:who|what|whoever|whatever|the same)\b", re.IGNORECASE)


def ruled_out():
    """{compiled phrase: (phrase, the word to use)} from the glossary's "Not:" lines."""
    phrases = {}
    word = None
    for line in (prose.ROOT / GLOSSARY).read_text().split("\n"):
        if line.startswith("## "):
            word = line[3:].strip()
        elif line.startswith("- Not: "):
            for phrase in line[len("- Not: "):].split(","):
                # A comment may break the line within a phrase; the texts have blanks there.
                pattern = r"\b" + re.escape(phrase.strip()) + r"(?:s|es)?\b"
                phrases[re.compile(pattern, re.IGNORECASE)] = (phrase.strip(), word)
    return phrases


def faults_of(text, phrases):
    """(rule, sentence, why) of each fault."""
    is_source = text.path.endswith((".cc", "_test.go"))
    for sentence in text.sentences():
        if not is_source:
            count = prose.word_count(sentence)
            if count > MAX_WORDS:
                yield "long", sentence, f"{count} words"
            # Headings and cells are labels; a question may ask.
            if (text.kind in ("paragraph", "comment") and SUBJECT.match(sentence)
                    and not sentence.endswith("?")):
                yield "who", sentence, "begins with " + SUBJECT.match(sentence).group(0).lower()
        if text.path == GLOSSARY and sentence.startswith("Not:"):
            continue
        for pattern, (phrase, word) in phrases.items():
            if pattern.search(sentence):
                yield "words", sentence, f'"{phrase}"; the glossary says "{word}"'


def main():
    phrases = ruled_out()
    bad = 0
    for path in prose.documents() + prose.comment_files():
        for text in prose.texts_of(path):
            for _, sentence, why in faults_of(text, phrases):
                print(f"{path}:{text.line}: {why}: {sentence}")
                bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
