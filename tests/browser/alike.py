"""Pages that one program makes are alike: what their layout depends on is which kinds of elements
they have, and how long the longest word of each kind is (the longest line, of code). Those of
which each has something that no other exceeds are opened in the browser; the rest need not be."""

from html.parser import HTMLParser

VOID = {'area', 'base', 'br', 'col', 'embed', 'hr', 'img', 'input', 'link', 'meta', 'source', 'wbr'}


class Shape(HTMLParser):
    "`longest`: {(tag, classes): characters of its longest word}; `asks`: what a browser loads."

    def __init__(self, text):
        super().__init__()
        self.longest, self.asks, self.pictures, self.path, self.code = {}, [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        a = dict(attributes)
        kind = tag, ' '.join(sorted((a.get('class') or '').split()))
        self.longest.setdefault(kind, 0)
        loaded = a.get('src') or (a.get('href') if tag == 'link' else None)
        if loaded:
            self.asks.append(loaded)
        if tag == 'img':
            self.pictures.append(a.get('alt') or '')
        if tag not in VOID:
            self.path.append(kind)
        if tag == 'pre':
            self.code = ''

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        while self.path and self.path.pop()[0] != tag:
            pass
        if tag == 'pre':
            self.note(('pre', ''), self.code.splitlines())
            self.code = None

    def handle_data(self, data):
        if self.code is not None:
            self.code += data
        elif self.path and self.path[-1][0] not in ('script', 'style', 'title'):
            self.note(self.path[-1], data.split())

    def note(self, kind, pieces):
        self.longest[kind] = max([self.longest.get(kind, 0), *map(len, pieces)])


def exceeds(shape, most):
    "What is on a page and on none of those that `most` was taken of: a kind, or a longer word."
    return {kind for kind, n in shape.items() if n > most.get(kind, -1)}


def most_of(shapes):
    most = {}
    for shape in shapes:
        for kind, n in shape.items():
            most[kind] = max(most.get(kind, 0), n)
    return most


def sample(shapes):
    "Of {name: longest}: some names, such that no other page exceeds them, the richest first."
    chosen, most = [], most_of(shapes.values())
    left = set(most)
    while left:
        has = {
            name: {kind for kind in left if shape.get(kind, -1) == most[kind]}
            for name, shape in shapes.items()
        }
        best = max(has, key=lambda name: len(has[name]))
        chosen.append(best)
        left -= has[best]
    return chosen
