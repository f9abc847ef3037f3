"""A preprocessor of mdBook: links that leave the book, such as ../../SERVING.md, lead to the repository."""

import json
import posixpath
import re
import sys

BOOK = "docs/guide/src"
PAGES = "https://github.com/strongroom/strongroom/blob/main/"


def rewrite(chapter):
    place = posixpath.join(BOOK, posixpath.dirname(chapter["path"]))

    def link(found):
        page = posixpath.normpath(posixpath.join(place, found[1]))
        return f"]({PAGES}{page})" if not page.startswith(BOOK) else found[0]

    chapter["content"] = re.sub(r"\]\((\.\./[^)]*)\)", link, chapter["content"])
    rewrite_all(chapter["sub_items"])


def rewrite_all(items):
    for item in items:
        if "Chapter" in item:
            rewrite(item["Chapter"])


# mdBook asks first whether a renderer is supported.
if sys.argv[1:2] != ["supports"]:
    _, book = json.load(sys.stdin)
    # The name that mdBook 0.5 has for them, and the one before.
    rewrite_all(book.get("items") or book["sections"])
    json.dump(book, sys.stdout)
